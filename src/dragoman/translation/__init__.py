"""From text to text: the Translator, its options and its results."""
