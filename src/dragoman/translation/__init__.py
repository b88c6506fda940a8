"""From text to text: the Translator, what it is asked for, and what it gives back."""
