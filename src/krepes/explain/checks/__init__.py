"""Whether explanations are faithful: what happens to a representation without the landmarks that they name."""
