"""What the kernel on patches is made of: layers that compare patches with a dictionary, and how they are pooled."""
