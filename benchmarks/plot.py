# SPDX-License-Identifier: BSD-3-Clause
"""Rows of benchmarks/compare as an SVG of bars, readable on light and on dark."""

from xml.sax.saxutils import escape

STYLE = """
text { font: 13px sans-serif; fill: #24292f }
.small { font-size: 12px }
.title { font-weight: bold }
.stock-default { fill: #8c959f }
.stock-best { fill: #d29922 }
.bytepsmpi { fill: #2f81f7 }
.bound { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 5 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .bound { stroke: #ff7b72 }
}
"""
LEFT, WIDTH, RIGHT = 130, 460, 210
BAR, GAP = 20, 6


def text(x, y, words, kind="", anchor="start"):
    return '<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>' % (
        x, y, kind, anchor, escape(words))


def bar(y, row, longest):
    """One implementation: its name, a bar for its share of the longest, its time."""
    wide = WIDTH * row["median_s"] / longest
    words = "%.3g s, %.2f x bound" % (row["median_s"], row["median_s"] / row["bound_s"])
    return [text(LEFT - 8, y + 15, row["impl"], "small", "end"),
            '<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" class="%s">'
            '<title>%s</title></rect>'
            % (LEFT, y, wide, BAR, row["impl"], escape(row["detail"])),
            text(LEFT + wide + 6, y + 15, words, "small")]


def panel(y, rows, title):
    """All bars of one size, on a scale of its own, and the bound across them."""
    longest = max(x["median_s"] for x in rows)
    parts = [text(LEFT, y + 14, title)]
    top = y = y + 24
    for row in rows:
        parts += bar(y, row, longest)
        y += BAR + GAP
    bound = LEFT + WIDTH * rows[0]["bound_s"] / longest
    parts.append('<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" class="bound"/>' % (
        bound, bound, top - 4, y - GAP + 4))
    return parts, y + 14


def bars(rows, size_text):
    """The whole picture: a panel a size."""
    first = rows[0]
    title = "MPI_%s, %d hosts x %d, %d servers, %s, %s" % (
        first["coll"].capitalize(), first["hosts"], first["ranks_per_host"],
        first["servers"], first["rate"], first["congestion_control"])
    parts, y = [text(16, 24, title, "title")], 40
    for size in sorted({x["bytes"] for x in rows}):
        chosen = [x for x in rows if x["bytes"] == size]
        more, y = panel(y, chosen, "%sB, median; dashed: the bound" % size_text(size))
        parts += more
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d">' % (
        LEFT + WIDTH + RIGHT, y, LEFT + WIDTH + RIGHT)
    return "\n".join([head, "<style>%s</style>" % STYLE, *parts, "</svg>"]) + "\n"
