"""What the verbs do and print, one file for each kind of answer."""
