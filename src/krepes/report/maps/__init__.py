"""Where rows and landmarks are drawn: maps in two dimensions, each with the share of neighbourhoods that it keeps."""

from krepes.report.maps.row_map import Places, maps

__all__ = ["Places", "maps"]
