# SPDX-License-Identifier: BSD-3-Clause
"""Results of benchmarks/horovod as tables in Markdown and as an SVG of bars."""

from xml.sax.saxutils import escape

import plot

TITLES = {"stock-default": "Open MPI as it comes",
          "stock-best": "Open MPI, best settings",
          "k=n": "bytepsmpi, k = n", "k=0": "bytepsmpi, k = 0"}
WAYS = tuple(TITLES)
NAMES = {"vgg16": "VGG16", "resnet50": "ResNet50"}
# With k = n servers and 8 hosts: over stock Open MPI as it comes (what BytePS published
# over Horovod), and over its best settings.
GOALS = {"vgg16": (2.00, 1.40), "resnet50": (1.44, 1.10)}
HEAD = ("hosts", "", "step, s", "images/s", "of linear", "/ default", "/ best",
        "exposed, s", "least step, s", "taken", "")
STYLE = plot.STYLE + """
.stock-best { fill: #d29922 }
.kn { fill: #2f81f7 }
.k0 { fill: #a371f7 }
.linear { stroke: #57ab5a; stroke-width: 2; stroke-dasharray: 5 3 }
.inside { font-size: 11px; fill: #ffffff }
"""
LEFT, PLOT, RIGHT, HEIGHT, BAR, BETWEEN = 70, 520, 100, 220, 34, 30


def winners(cells):
    """{(model, hosts, way): cell}. Where Open MPI as it comes was faster than with other
    settings, that is its best.
    """
    found = {(x["model"], x["hosts"], x["way"]): x for x in cells
             if "error" not in x and not x["trial"]}
    for (model, hosts, way), cell in list(found.items()):
        best = found.get((model, hosts, "stock-best"))
        if way == "stock-default" and best and cell["step_s"] < best["step_s"]:
            found[model, hosts, "stock-best"] = {**cell, "way": "stock-best",
                                                 "label": "as it comes"}
    return found


def over(found, cell, way):
    """So many times the images a second of that way; None: it was not measured."""
    other = found.get((cell["model"], cell["hosts"], way))
    return other["step_s"] / cell["step_s"] if other else None


def ratio(value):
    return "%.2f" % value if value else ""


def columns(found, cell):
    stock = cell["way"].startswith("stock")
    return (str(cell["hosts"]), TITLES[cell["way"]], "%.3f" % cell["step_s"],
            "%.0f" % cell["images_s"], "%.0f%%" % (100 * cell["linear"]),
            *(ratio(over(found, cell, x)) for x in WAYS[:2]),
            "%.3f" % (cell["step_s"] - cell["compute_s"]), "%.3f" % cell["least_step_s"],
            "" if stock or cell["taken"] is None else "%.0f%%" % (100 * cell["taken"]),
            cell["label"])


def order(cell):
    return cell["hosts"], WAYS.index(cell["way"])


def markdown(results):
    found = winners(results["cells"].values())
    parts = ["%(cpu)s, %(cores)d cores, Linux %(kernel)s\n" % results["machine"]]
    for model in dict.fromkeys(x[0] for x in found):
        cells = sorted((x for x in found.values() if x["model"] == model), key=order)
        one = cells[0]
        parts.append("\n## %s\n\n%s; %s a step of %.3f s compute, %s\n\n| %s |\n|%s\n" % (
            NAMES[model], one["what"], "%.1f MB" % (one["bytes"] / 1e6), one["compute_s"],
            one["network"], " | ".join(HEAD), "---|" * len(HEAD)))
        parts += ["| %s |\n" % " | ".join(columns(found, x)) for x in cells]
    parts += ["\n%s\n" % x[0] for x in goals(found)]
    return "".join(parts)


def goals(found):
    """(line, met) for each goal of which all is measured."""
    lines = []
    for model, limits in GOALS.items():
        cell = found.get((model, 8, "k=n"))
        for way, limit in zip(("stock-default", "stock-best"), limits):
            faster = cell and over(found, cell, way)
            if faster:
                lines.append(("%s, 8 hosts, k = n: %.2f times %s; goal %.2f: %s" % (
                    NAMES[model], faster, TITLES[way], limit,
                    "met" if faster >= limit else "MISSED"), faster >= limit))
    return lines


def panel(y, cells, title):
    """A model: a group of bars for each number of hosts, images a second a host."""
    top = max(x["images_s"] / x["hosts"] / x["linear"] for x in cells)
    base, x = y + 30 + HEIGHT, LEFT + 12
    parts = [plot.text(LEFT, y + 14, title, "title"),
             '<line x1="%d" x2="%d" y1="%d" y2="%d" class="linear"/>'
             % (LEFT, LEFT + PLOT, base - HEIGHT, base - HEIGHT),
             plot.text(LEFT - 6, base - HEIGHT + 4, "%.0f" % top, "small", "end"),
             plot.text(LEFT - 6, base + 4, "0", "small", "end")]
    for hosts in sorted({c["hosts"] for c in cells}):
        start = x
        for cell in sorted((c for c in cells if c["hosts"] == hosts), key=order):
            parts += bar(x, base, cell, HEIGHT * cell["images_s"] / hosts / top)
            x += BAR + 3
        parts.append(plot.text((start + x - 3) / 2, base + 18, "%d hosts" % hosts,
                               "small", "middle"))
        x += BETWEEN
    return parts, base + 40


def bar(x, base, cell, high):
    return ['<rect x="%.1f" y="%.1f" width="%d" height="%.1f" rx="2" class="%s">'
            '<title>%s</title></rect>' % (
                x, base - high, BAR, high, cell["way"].replace("=", ""),
                escape("%(way)s: step %(step_s).3f s %(label)s" % cell)),
            plot.text(x + BAR / 2, base - high + 14,
                      "%.0f" % (cell["images_s"] / cell["hosts"]), "inside", "middle")]


def legend(y):
    parts, x = [], LEFT
    for way, title in TITLES.items():
        parts += ['<rect x="%d" y="%d" width="12" height="12" class="%s"/>'
                  % (x, y, way.replace("=", "")),
                  plot.text(x + 17, y + 11, title, "small")]
        x += 24 + 7 * len(title)
    return parts


def picture(results):
    found = winners(results["cells"].values())
    title = "Horovod: images a second a host; dashed: compute alone"
    parts, y = [plot.text(16, 24, title, "title"), *legend(36)], 62
    for model in dict.fromkeys(x[0] for x in found):
        cells = [x for x in found.values() if x["model"] == model]
        more, y = panel(y, cells, NAMES[model])
        parts += more
    wide = LEFT + PLOT + RIGHT
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d">' % (
        wide, y, wide)
    return "\n".join([head, "<style>%s</style>" % STYLE, *parts, "</svg>"]) + "\n"
