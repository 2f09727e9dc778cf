"""The ground floor: components, files, numbers, and the contracts between data, sums and engines."""
