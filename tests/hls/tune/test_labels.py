# SPDX-License-Identifier: Apache-2.0
"""Labels as users have them: which are classes, which are numbers, and the figures of each; and the plots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic import cli
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.rows import RowsError
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.tune.labels import Labels, read_labels, table
from hypersonic.own.picture import draw_own

KIND = FixedPoint(16, 6)
THREE, ONE = TensorSpec("kind", (3,), KIND), TensorSpec("size", (1,), KIND)
ANSWERS = np.array([[0.9, 0.1, 0.0], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.8, 0.1, 0.1]])


def labels(directory: Path, values: NDArray[np.generic], tensor: TensorSpec, trained: NDArray[np.float64]) -> Labels:
    np.save(directory / "labels.npy", values)
    (found,) = read_labels(directory / "labels.npy", Row((tensor,)), len(trained), (trained,))
    return found


@pytest.mark.parametrize(
    "values",
    [np.array([0, 2, 1, 1]), np.array([[0], [2], [1], [1]], np.uint8), np.array([0.0, 2.0, 1.0, 1.0]), np.eye(3)[[0, 2, 1, 1]]],
)
def test_integers_and_one_hot_rows_are_classes_and_their_figure_is_the_accuracy(
    tmp_path: Path, values: NDArray[np.generic]
) -> None:
    found = labels(tmp_path, values, THREE, ANSWERS)
    assert found.figures(ANSWERS) == {"accuracy": 0.75}


@pytest.mark.parametrize(("shift", "threshold"), [(0.0, 0.5), (-0.5, 0.0)])
def test_a_single_output_with_labels_0_and_1_is_a_probability_or_a_logit(
    tmp_path: Path, shift: float, threshold: float
) -> None:
    answers = np.array([[0.1], [0.9], [0.6], [0.4]]) + shift
    found = labels(tmp_path, np.array([False, True, True, True]), ONE, answers)
    assert (found.threshold, found.figures(answers)) == (threshold, {"accuracy": 0.75})


def test_other_numbers_are_true_values_with_rms_bias_and_resolution(tmp_path: Path) -> None:
    found = labels(tmp_path, np.array([1.0, 2.0, 3.0, 4.5]), ONE, np.ones((4, 1)))
    figures = found.figures(np.array([[2.0], [3.0], [4.0], [5.5]]))
    assert figures == {"rms": 1.0, "bias": 1.0, "resolution": 0.0}
    ((name, values, meaning), *_) = table((found,), {"served": (found.values,)})
    assert (name, values, meaning) == ("rms", {"served": 0.0}, "root mean square of answer - label")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([0, 1, 3, 1]), "labels of kind run from 0 to 3, expected classes, integers from 0 to 2"),
        (np.array([0.5, 1, 2, 1]), "run from 0.5 to 2, expected classes"),
        (np.array([0, 1, 2]), r"have shape \(3,\), expected \(4,\) for classes, or \(4, 3\), one for each row"),
        (np.zeros((4, 2)), r"have shape \(4, 2\)"),
        (np.array(["a"] * 4), "have dtype <U1 or are not finite"),
        (np.array([0, 1, np.inf, 0]), "or are not finite"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path: Path, values: NDArray[np.generic], message: str) -> None:
    with pytest.raises(RowsError, match=message):
        labels(tmp_path, values, THREE, ANSWERS)


def test_labels_of_several_outputs_are_read_by_name(tmp_path: Path) -> None:
    row, trained = Row((THREE, ONE)), (ANSWERS, np.ones((4, 1)))
    np.savez(tmp_path / "l.npz", size=np.arange(4), weight=np.zeros(9))
    (found,) = read_labels(tmp_path / "l.npz", row, 4, trained)
    assert (found.output, found.name, found.classes) == (1, "size", None)
    np.savez(tmp_path / "l.npz", other=np.arange(4))
    with pytest.raises(RowsError, match="holds other, expected labels of kind, size, by these names"):
        read_labels(tmp_path / "l.npz", row, 4, trained)


def test_the_picture_shows_classes_numbers_or_the_trained_model(tmp_path: Path) -> None:
    from matplotlib import pyplot as plt

    classes, numbers = Labels(0, "kind", ANSWERS, np.array([0, 2, 1, 1])), Labels(0, "kind", ANSWERS)
    for given, shown in (((classes,), "class of the answer"), ((numbers,), "label"), ((), "trained model")):
        figure, (left, right) = plt.subplots(1, 2)
        draw_own(left, right, (ANSWERS,), (ANSWERS + 0.1,), given)
        figure.savefig(tmp_path / "picture.png")
        assert left.get_xlabel() == shown
        plt.close(figure)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["run", "mine.keras"],
            "mine.keras is a model of your own, for which nothing is generated: give its rows with --rows FILE",
        ),
        (["run", "own.keras"], "model file own.keras does not exist"),
        (["run", "learn.py", "--rows", "mine.npy"], "expected a .keras, .h5 or .onnx file, or file.py:function"),
        (["run", "mine", "--rows", "mine.npy"], "model is 'mine', expected a zoo name ("),
        (["run", "mine", "--rows", "mine.npy"], "; did you mean mine.keras?"),
        (["run", "mine.npy", "--rows", "mine.keras"], "model is 'mine.npy', expected a zoo name ("),
        (["run", "mine.keras", "--rows", "mime.npy"], "--rows mime.npy does not exist; did you mean mine.npy?"),
        (["run", "mine.keras", "--rows", "mine.npy", "--labels", "labels.npy"], "--labels labels.npy does not exist"),
        (
            ["run", "mine.keras", "--rows", "mine.npy", "--labels", "two.npy"],
            "two.npy holds labels of 2 rows, mine.npy has 3 rows; expected one label for each row",
        ),
        (["report", "mine.keras", "--rows", "mime.npy"], "--rows mime.npy does not exist"),
        (["new", "mine.keras", "--rows", "mime.npy"], "--rows mime.npy does not exist"),
        (["tune", "mine.keras", "--rows", "mime.npy"], "--rows mime.npy does not exist"),
        (["infer", "facile", "--labels", "l.npy"], "--labels needs --rows"),
        (["infer", "facile", "--rows", "r.npy"], "--rows goes with a file, such as own.keras or own.yaml; the rows of facile"),
        (["infer", "own.keras", "--rows", "r.npy", "--input", "e.root"], "expected one or the other"),
        (["report", "jets", "facile", "--rows", "r.npy"], "--rows and --labels go with one model, got jets, facile"),
        (["run", "own.yaml", "--rows", "r.npy"], "beside a YAML one model file of its name is expected"),
        (["infer", "own.keras", "--rows", "r.npy"], "model file own.keras does not exist"),
    ],
)
def test_options_of_rows_that_do_not_go_together_are_refused_at_once(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.keras").touch()
    np.save("mine.npy", np.zeros((3, 2)))
    np.save("two.npy", np.zeros(2))
    assert cli.main(arguments) == 2
    assert words in capsys.readouterr().err
