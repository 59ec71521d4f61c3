"""A study: do more shots help? ``docs/howto/new-study.md`` explains it line by line."""

from longshot.studies import (
    Claim,
    Comparison,
    Draw,
    Evaluation,
    OneDataset,
    Plan,
    Recipe,
    Side,
    StudySettings,
    TableColumn,
    TableRow,
    score_table,
)


class Settings(StudySettings):
    seed: int = 0
    tasks: int = 30
    shots: tuple[int, ...] = (1, 5)
    backbone: str = "pixels"
    methods: tuple[str, ...] = ("protonet", "ridge")


class MoreShots(OneDataset[Settings], Recipe):
    settings, title, question = Settings, "Do more shots help?", "How much does accuracy rise with the shots?"

    def draw(self, settings, source, shot):
        return Draw(
            f"{shot}-shot",
            source,
            {"tasks": settings.tasks, "way": 3, "shot": shot, "query": 5, "seed": settings.seed},
        )

    def sides(self, settings):
        return [Side(f"{shot}-shot", self.draw(settings, "", shot)) for shot in settings.shots]

    def plan(self, settings, data):
        draws = [self.draw(settings, data.name, shot) for shot in settings.shots]
        return Plan(
            draws=draws,
            evaluations=[Evaluation([d.name for d in draws], settings.backbone, settings.methods)],
        )

    def comparisons(self, settings):
        return [Comparison("Shots", "testbed.shape.shot", self.sides(settings))]

    def claims(self, settings):
        return [Claim("rise", "More shots help", "everybody says so", self.rise, factor="testbed.shape.shot")]

    def rise(self, lab):
        fewest, most = self.sides(lab.settings)[0], self.sides(lab.settings)[-1]
        which = [{"method": method, "backbone": lab.settings.backbone} for method in lab.settings.methods]
        return [lab.scores.difference(each["method"], most, fewest, **each) for each in which]

    def tables(self, lab):
        rows = [TableRow((method,), facts={"method": method}) for method in lab.settings.methods]
        columns = [TableColumn("", f"{shot}-shot", {"shot": shot}) for shot in lab.settings.shots]

        def values(row, column):
            return lab.scores.values(column.head, lab.settings.backbone, row.labels[0])

        return [score_table("shots", "Accuracy by shots", ["method"], rows, columns, values)]


RECIPE = MoreShots()
