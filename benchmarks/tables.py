# SPDX-License-Identifier: BSD-3-Clause
"""Results of benchmarks/matrix as lines of text and as tables in Markdown."""

HEAD = ("cell", "time", "x bound", "over stock", "goal", "", "sent again", "B, Mbit/s")


def time_text(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            break
    return "%.3g %s" % (seconds / scale, unit)


def columns(name, found):
    """The texts of a row; '' where a cell has no such figure."""
    goodputs = {round(x / 1e6, 1) for x in found.get("goodputs_bit_s", {}).values()}
    verdict = "not measured" if "error" in found else "met" if found["met"] else "MISSED"
    if "settled" in found:
        verdict += ", %.2f (possible: %.2f)" % (found["settled"], found["possible"])
    return (name,
            time_text(found["median_s"]) if "median_s" in found else "",
            "%.3f" % found["x_bound"] if "x_bound" in found else "",
            "%.2f x" % found["faster"] if "faster" in found else "",
            found["goal"], verdict,
            "%.3f%%" % found["sent_again_percent"]
            if "sent_again_percent" in found else "",
            ", ".join("%g" % x for x in sorted(goodputs, reverse=True)))


def line(name, found):
    return "%-46s %9s %7s %8s  %-20s %-7s %8s  %s" % columns(name, found)


def markdown(results):
    """All results, a table a group."""
    cells = results["cells"]
    n_met = sum(x.get("met", False) for x in cells.values())
    parts = ["%(cpu)s, %(cores)d cores, Linux %(kernel)s" % results["machine"],
             "%d cells measured, %d met" % (
                 sum("met" in x for x in cells.values()), n_met)]
    parts = ["; ".join(parts) + ".\n"]
    for group in dict.fromkeys(x["group"] for x in cells.values()):
        parts.append("\n## %s\n\n| %s |\n|%s\n" % (
            group, " | ".join(HEAD), "---|" * len(HEAD)))
        parts += ["| %s |\n" % " | ".join(columns(name, found))
                  for name, found in cells.items() if found["group"] == group]
    return "".join(parts)
