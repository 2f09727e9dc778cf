"""What everything stands on: components, files, numbers, and the contracts between data, sums and engines."""
