"""Adaptation to a task: equal to what it should be at its ends, and to a plain loop in between."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longshot.base import ImageTask, TaskBatch, UserError
from longshot.models import (
    ImageMethod,
    Network,
    SmallNetwork,
    get_method,
    make_task,
    restart_layers,
    trainable_copy,
)
from longshot.models.methods import finetune_network
from longshot.models.methods.finetune import FinetuneLast
from longshot.models.methods.finetune_network import (
    Finetune5,
    FinetuneAll,
    Support,
    TransductiveFinetuneAll,
    augment,
    content_order,
    descend,
)
from longshot.models.methods.task_parameters import BiT, LoRA, MDTransfer, OffsetAdapter, TrainFromScratch


@pytest.fixture
def network() -> SmallNetwork:
    torch.set_num_threads(1)
    return SmallNetwork()


@pytest.fixture
def task() -> ImageTask:
    return make_task([4, 3, 5], [3, 3, 3], 11)[0]


@pytest.fixture
def room() -> Iterator[finetune_network.Room]:
    """The shared memory of how many images fit, put back afterwards."""
    before = finetune_network.ROOM.limit
    finetune_network.ROOM.limit = None
    yield finetune_network.ROOM
    finetune_network.ROOM.limit = before


def scores(method: ImageMethod, task: ImageTask, network: Network) -> Tensor:
    with torch.no_grad():
        return method.scores([task], network)[0]


def centred(values: Tensor) -> Tensor:
    """Without the constant per query that a softmax does not see."""
    return values - values.mean(1, keepdim=True)


def as_batch(task: ImageTask, network: Network) -> TaskBatch:
    """The same task as features."""
    with torch.no_grad():
        support, query = network(task.support), network(task.query)
    return TaskBatch(
        support=support.unsqueeze(0),
        support_label=task.support_label.unsqueeze(0),
        query=query.unsqueeze(0),
        query_mask=torch.ones(1, len(query), dtype=torch.bool),
        ways=torch.tensor([task.way]),
        way=task.way,
        seeds=torch.tensor([task.seed]),
        blocks=(support.shape[1],),
    )


def prototypes(task: ImageTask, network: Network, distance: str = "cosine") -> Tensor:
    return get_method(f"protonet(distance={distance!r})").scores(as_batch(task, network))[0]  # type: ignore[call-arg,arg-type,return-value]


class TestFinetuneAll:
    @pytest.mark.parametrize("distance", ["cosine", "euclidean"])
    @pytest.mark.parametrize("kind", [FinetuneAll, TransductiveFinetuneAll, Finetune5])
    def test_without_steps_it_is_the_prototype_classifier(
        self, kind: type[FinetuneAll], distance: str, task: ImageTask, network: SmallNetwork
    ) -> None:
        adapted = scores(kind(steps=0, distance=distance), task, network)
        expected = prototypes(task, network, distance)
        assert torch.allclose(centred(adapted), centred(expected), atol=1e-4)

    def test_steps_equal_a_plain_loop(self, task: ImageTask, network: SmallNetwork) -> None:
        model = copy.deepcopy(network).requires_grad_(True)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

        def logits(images: Tensor) -> Tensor:
            vectors = model(task.support)
            means = torch.stack([vectors[task.support_label == c].mean(0) for c in range(task.way)])
            return 10 * F.cosine_similarity(model(images).unsqueeze(1), means.unsqueeze(0), dim=2)

        for _ in range(7):
            optimiser.zero_grad()
            F.cross_entropy(logits(task.support), task.support_label).backward()
            optimiser.step()
        adapted = scores(FinetuneAll(steps=7, lr=1e-3, augmentation=0), task, network)
        assert torch.allclose(adapted, logits(task.query).detach(), atol=2e-3)

    def test_the_queries_entropy_falls_when_it_counts(self, task: ImageTask, network: SmallNetwork) -> None:
        def entropy(method: ImageMethod) -> float:
            return float(finetune_network.mean_entropy(scores(method, task, network)))

        alone = FinetuneAll(steps=10, lr=1e-3, augmentation=0)
        assert entropy(TransductiveFinetuneAll(steps=10, lr=1e-3, augmentation=0)) < entropy(alone) - 0.01

    def test_augmentation_makes_a_difference(self, task: ImageTask, network: SmallNetwork) -> None:
        with_, without = (
            scores(FinetuneAll(steps=3, lr=1e-3, augmentation=p), task, network) for p in (1, 0)
        )
        assert not torch.allclose(with_, without, atol=1e-3)

    def test_three_rates_to_choose_from_unless_one_is_given(self) -> None:
        calls = [candidate.call for candidate in FinetuneAll(augmentation=0.5).candidates()]
        assert calls == [f"finetune-all(augmentation=0.5, lr={rate})" for rate in (0.0001, 0.001, 0.01)]
        assert not FinetuneAll(lr=0.1).candidates()

    def test_an_open_rate_is_told(self, task: ImageTask, network: SmallNetwork) -> None:
        with pytest.raises(UserError, match=r"finetune-all\(lr=0\.001\)"):
            scores(FinetuneAll(), task, network)

    @pytest.mark.parametrize(
        "settings", [{"steps": -1}, {"lr": 0}, {"distance": "city"}, {"augmentation": "x"}]
    )
    def test_wrong_settings(self, settings: dict[str, object]) -> None:
        with pytest.raises(UserError, match="finetune-all"):
            FinetuneAll(**settings)  # type: ignore[arg-type]


class TestAdapters:
    @pytest.mark.parametrize("settings", [{"rank": 0}, {"scale": 0}])
    def test_lora_without_rank_or_scale_is_the_frozen_network(
        self, settings: dict[str, int], task: ImageTask, network: SmallNetwork
    ) -> None:
        adapted = scores(LoRA(steps=3, **settings), task, network)  # type: ignore[arg-type]
        assert torch.equal(adapted, scores(FinetuneAll(steps=0), task, network))

    @pytest.mark.parametrize("method", [LoRA(lr=0.01), OffsetAdapter(lr=0.01)])
    def test_only_their_own_parameters_move(
        self, method: FinetuneAll, task: ImageTask, network: SmallNetwork, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        models: list[Network] = []
        made = type(method)._model

        def keep(self: FinetuneAll, trained: Network, generator: torch.Generator) -> object:
            model, moving = made(self, trained, generator)
            models.append(model)
            return model, moving

        monkeypatch.setattr(type(method), "_model", keep)
        adapted = scores(method, task, network)
        before = dict(network.state_dict())
        after = {
            name.replace("parametrizations.", "").replace(".original", ""): value
            for name, value in models[0].state_dict().items()
        }
        assert all(torch.equal(value, after.pop(name)) for name, value in before.items())
        assert after and any(
            value.abs().sum() > 0 for value in after.values()
        )  # what is left is the adapters'
        assert not torch.allclose(adapted, scores(FinetuneAll(steps=0), task, network), atol=1e-2)

    def test_rank_one_step_changes_the_weight_by_up_times_down(self, network: SmallNetwork) -> None:
        from longshot.models.methods.task_parameters import LowRank

        weight = network.qkv.weight
        low = LowRank(weight, 2, 0.5, torch.Generator().manual_seed(0))
        with torch.no_grad():
            low.up.fill_(1.0)
        assert torch.allclose(low(weight) - weight, 0.5 * low.down.sum(0).expand_as(weight), atol=1e-6)

    @pytest.mark.parametrize("method", [LoRA(), OffsetAdapter()])
    def test_a_network_without_linear_layers_is_refused(self, method: ImageMethod, task: ImageTask) -> None:
        class Convolutions(SmallNetwork):
            def __init__(self) -> None:
                super().__init__()
                del self.qkv, self.proj

        with pytest.raises(UserError, match=r"has 0 of them; adapt it with finetune-all"):
            scores(method, task, Convolutions())

    def test_pytorchs_own_attention_is_found(self, task: ImageTask) -> None:
        class Torch(SmallNetwork):
            def __init__(self) -> None:
                super().__init__()
                del self.qkv, self.proj
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(0)
                    self.attention = nn.MultiheadAttention(24, 2, batch_first=True)
                self.eval().requires_grad_(False)

            def maps(self, images: Tensor) -> Tensor:
                maps: Tensor = self.norm(self.patches(images))
                tokens = maps.flatten(2).transpose(1, 2)
                mixed = self.attention(tokens, tokens, tokens, need_weights=False)[0]
                return (tokens + mixed).transpose(1, 2).reshape(maps.shape)

        network = Torch()
        frozen = scores(FinetuneAll(steps=0), task, network)
        for method in (LoRA(lr=0.05, steps=5), OffsetAdapter(lr=0.05, steps=5)):
            assert not torch.allclose(scores(method, task, network), frozen, atol=1e-3)


class TestHeads:
    def test_bits_rule_rises_then_falls_by_tenths(self) -> None:
        rates = [BiT().rate(step) for step in (0, 50, 100, 200, 201, 301, 401, 499)]
        expected = [0, 0.0015, 0.003, 0.003, 0.0003, 0.00003, 0.000003, 0.000003]
        assert rates == pytest.approx(expected)

    def test_md_transfer_equals_a_plain_loop(self, task: ImageTask, network: SmallNetwork) -> None:
        model = copy.deepcopy(network).requires_grad_(True)
        with torch.no_grad():
            vectors = network(task.support)
        means = torch.stack([vectors[task.support_label == c].mean(0) for c in range(task.way)])
        head = nn.Parameter(means)
        optimiser = torch.optim.Adam([*model.parameters(), head], lr=1e-3)

        def logits(images: Tensor) -> Tensor:
            return 10 * F.cosine_similarity(model(images).unsqueeze(1), head.unsqueeze(0), dim=2)

        for _ in range(6):
            optimiser.zero_grad()
            F.cross_entropy(logits(task.support), task.support_label).backward()
            optimiser.step()
        adapted = scores(MDTransfer(steps=6, lr=1e-3, start="prototypes"), task, network)
        assert torch.allclose(adapted, logits(task.query).detach(), atol=2e-3)

    def test_the_other_choices_of_md_transfer_equal_a_plain_loop(
        self, task: ImageTask, network: SmallNetwork
    ) -> None:
        with torch.no_grad():
            vectors = network(task.support)
        head = nn.Parameter(torch.stack([vectors[task.support_label == c].mean(0) for c in range(task.way)]))
        bias = nn.Parameter(torch.zeros(task.way))
        optimiser = torch.optim.SGD([head, bias], lr=0.1)
        for _ in range(6):
            optimiser.zero_grad()
            logits = vectors @ F.normalize(head, dim=1).T + bias
            F.cross_entropy(logits, task.support_label).backward()
            optimiser.step()
        with torch.no_grad():
            expected = network(task.query) @ F.normalize(head, dim=1).T + bias
        method = MDTransfer(
            steps=6,
            lr=0.1,
            head="linear",
            weight_norm=True,
            layers="head",
            optimiser="sgd",
            start="prototypes",
        )
        assert torch.allclose(scores(method, task, network), expected, atol=1e-4)

    def test_a_new_start_forgets_the_weights(self, network: SmallNetwork) -> None:
        first, second = trainable_copy(network), trainable_copy(SmallNetwork(seed=5))
        for model in (first, second):
            restart_layers(model, torch.Generator().manual_seed(3))
        for (name, a), (_, b) in zip(first.state_dict().items(), second.state_dict().items(), strict=True):
            assert torch.equal(a, b), name
        assert not torch.equal(first.state_dict()["qkv.weight"], network.qkv.weight)

    def test_training_from_scratch_fits_the_support(self, task: ImageTask, network: SmallNetwork) -> None:
        own = ImageTask(task.support, task.support_label, task.support, task.way, seed=1)
        adapted = scores(TrainFromScratch(steps=200, lr=0.005), own, network)
        assert float((adapted.argmax(1) == task.support_label).float().mean()) > 0.9

    def test_it_begins_at_the_networks_weights_where_asked_to(
        self, task: ImageTask, network: SmallNetwork
    ) -> None:
        other = SmallNetwork(seed=5)
        fresh, own = TrainFromScratch(steps=2), TrainFromScratch(steps=2, fresh=False)
        assert torch.equal(scores(fresh, task, network), scores(fresh, task, other))
        assert not torch.allclose(scores(own, task, network), scores(own, task, other))
        assert own.call == "train-from-scratch(fresh=False, steps=2)"


class TestFinetuneLast:
    def test_steps_equal_a_plain_loop_over_the_rows_drawn(
        self, task: ImageTask, network: SmallNetwork
    ) -> None:
        batch = as_batch(task, network)
        method = FinetuneLast(steps=12, lr=0.01, batch=4)
        rows_per_step = method._drawn(batch)[0]
        assert int(rows_per_step.min()) >= 0 and int(rows_per_step.max()) < len(task.support)
        head = nn.Linear(network.dim, task.way)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        optimiser = torch.optim.Adam(head.parameters(), lr=0.01)
        for rows in rows_per_step:
            optimiser.zero_grad()
            F.cross_entropy(head(batch.support[0][rows]), task.support_label[rows]).backward()
            optimiser.step()
        adapted = method.scores(batch)[0]
        assert torch.allclose(adapted, head(batch.query[0]).detach(), atol=1e-4)

    def test_classes_are_drawn_equally_and_their_rows_too(
        self, task: ImageTask, network: SmallNetwork
    ) -> None:
        rows = FinetuneLast(steps=1000, batch=6)._drawn(as_batch(task, network))
        counts = torch.bincount(rows.flatten(), minlength=len(task.support))
        shots = torch.bincount(task.support_label)[task.support_label]
        expected = 6000 / task.way / shots
        assert ((counts - expected).abs() < 5 * expected.sqrt()).all()


class TestMemory:
    class Limited(SmallNetwork):
        """A network that has no room for more than 5 images."""

        def forward(self, images: Tensor) -> Tensor:
            if len(images) > 5:
                raise RuntimeError(
                    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
                )
            return super().forward(images)

    @pytest.mark.parametrize("method", [FinetuneAll(steps=3, lr=1e-3), BiT(steps=3), MDTransfer(steps=3)])
    def test_images_go_in_halves_with_the_same_result(
        self,
        method: ImageMethod,
        task: ImageTask,
        network: SmallNetwork,
        room: finetune_network.Room,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        expected = scores(method, task, network)
        adapted = scores(method, task, self.Limited())
        assert torch.allclose(adapted, expected, atol=2e-3)
        assert room.limit is not None and room.limit <= 5
        assert capsys.readouterr().err.count("not enough memory") == 1

    def test_another_error_is_not_taken_for_it(self, task: ImageTask, room: finetune_network.Room) -> None:
        class Broken(SmallNetwork):
            def forward(self, images: Tensor) -> Tensor:
                raise RuntimeError("shapes do not fit")

        with pytest.raises(RuntimeError, match="shapes do not fit"):
            scores(FinetuneAll(steps=0), task, Broken())

    def test_one_image_that_does_not_fit_is_an_error(
        self, task: ImageTask, room: finetune_network.Room
    ) -> None:
        class Full(SmallNetwork):
            def forward(self, images: Tensor) -> Tensor:
                raise MemoryError

        with pytest.raises(MemoryError):
            scores(FinetuneAll(steps=0), task, Full())


def test_a_step_in_pieces_has_the_gradient_of_the_whole(
    network: SmallNetwork, room: finetune_network.Room
) -> None:
    images = torch.randn(10, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    gradients = []
    for limit in (None, 3):
        room.limit = limit
        model = trainable_copy(network)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.0)
        descend(model, images, lambda vectors: (vectors @ vectors.T).logsumexp(1).mean(), optimiser)
        gradients.append([p.grad for p in model.parameters()])
    for at_once, pieces in zip(*gradients, strict=True):
        assert at_once is not None and pieces is not None
        assert torch.allclose(at_once, pieces, atol=1e-4 * max(1, float(at_once.abs().max())))


class TestSupport:
    def test_the_order_follows_the_images(self) -> None:
        images = torch.randn(9, 3, 8, 8, generator=torch.Generator().manual_seed(1))
        shuffled = torch.randperm(9, generator=torch.Generator().manual_seed(2))
        assert torch.equal(images[content_order(images)], images[shuffled][content_order(images[shuffled])])

    def test_labels_skip_absent_classes_and_scores_do_not(self) -> None:
        task, _ = make_task([2, 0, 1], [1, 1, 1])
        support = Support.of(task)
        assert support.classes.tolist() == [0, 2] and sorted(support.labels.tolist()) == [0, 0, 1]
        wide = support.spread(torch.tensor([[1.0, 2.0]]))
        assert wide.tolist() == [[1.0, float("-inf"), 2.0]]


class TestAugment:
    def test_each_image_is_changed_on_its_own(self) -> None:
        images = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0)).repeat(6, 1, 1, 1)
        changed = augment(images, torch.Generator().manual_seed(1))
        assert changed.shape == images.shape
        assert all(not torch.allclose(changed[0], other) for other in changed[1:])

    def test_shifts_stay_within_an_eighth_and_bring_zeros(self) -> None:
        image = torch.zeros(200, 3, 16, 16)
        image[:, :, 8, 8] = 1e6  # colours move it by little
        changed = augment(image, torch.Generator().manual_seed(3))
        brightest = changed.abs().sum(1).flatten(1).argmax(1)
        rows, columns = brightest // 16 - 8, brightest % 16 - 8
        assert set(rows.tolist()) == set(columns.tolist()) == {-2, -1, 0, 1, 2}
        moved_down = rows == 2
        assert float(changed[moved_down][:, :, :2].abs().max()) == 0.0
