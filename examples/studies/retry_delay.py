"""A study of one's own: `fencepost study examples/studies/retry_delay.py`."""

from statistics import median

from harness.campaign.document import DataTable, Heading, Paragraph, StudyDocument
from harness.campaign.grid import Cell, Grid, Part
from harness.campaign.study import Played, Study

DELAYS = ("5ms", "50ms", "200ms")
OPTIONS = {"cluster": "process", "nemesis": "none", "clients": "4", "hold": "5ms", "duration": "3s", "recovery": "0"}

# Which runs: a cell for each configuration, all with the same seeds.
GRID = Grid(
    name="retry-delay",
    title="What does a longer delay between tries cost?",
    question="How often do clients acquire the lock when they wait longer before they try again?",
    parts=(
        Part(
            title="delays",
            cells=tuple(Cell(delay, {"retry-delay": delay}, {"delay": delay}) for delay in DELAYS),
            seeds=3,
            options={"lock": "redlock", **OPTIONS},
        ),
    ),
)


def settle(played: Played) -> dict[str, list[float]]:
    """What the record says: acquisitions a second of each run, by delay. An aborted run has no figures."""
    speeds: dict[str, list[float]] = {delay: [] for delay in DELAYS}
    for line in played.lines:
        if line.figures is not None:
            speeds[line.cell].append(line.figures.grants / line.figures.load_s)
    return speeds


def document(played: Played, speeds: dict[str, list[float]]) -> StudyDocument:
    """What is said of that, for every form."""
    rows = [(delay, f"{median(of):.0f}/s", f"{min(of):.0f} to {max(of):.0f}") for delay, of in speeds.items() if of]
    answer = DataTable(("delay", "acquisitions (median)", "all runs"), rows)
    return played.document([Paragraph(GRID.question, "lead"), Heading("The answer"), answer], {"speeds": speeds})


STUDY = Study(grid=GRID, settle=settle, document=document)
