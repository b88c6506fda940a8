"""Read the files of other toolkits without running code from them: pickles, PyTorch, YAML, and Marian's weights."""
