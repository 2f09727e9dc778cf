"""What the cells of a text column mean: numbers, dates and times, yes and no, missing values, running text."""
