"""Names that have changed: the old ones still work, and warn with the new one."""

from __future__ import annotations

import pytest
import torch

from krepes.losses import Batch, Loss, MomentForms, check_loss
from krepes.losses.statistics import SampleStatistics
from krepes.moments import Moments

PHI = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]], dtype=torch.float64)
MOMENTS = Moments.of_pairs(PHI, PHI + 1, PHI - 1)
FORMS = MomentForms.of(MOMENTS)
STATISTICS = SampleStatistics(Batch((PHI, PHI), phi_norm_sq=PHI[:, 0], gram=torch.eye(2)))

MOVED = [
    (MOMENTS, "sum_a", "sum_1"),
    (MOMENTS, "sum_b", "sum_2"),
    (MOMENTS, "gram_aa", "sum_11"),
    (MOMENTS, "gram_bb", "sum_22"),
    (MOMENTS, "gram_ab", "sum_12"),
    (MOMENTS, "gram_an", "sum_1n"),
    (MOMENTS, "mean_a", "mean_1"),
    (MOMENTS, "mean_b", "mean_2"),
    (MOMENTS, "S_aa", "S_11"),
    (MOMENTS, "S_bb", "S_22"),
    (MOMENTS, "S_ab", "S_12"),
    (MOMENTS, "mean_norm", "mean_norm_sq"),
    (FORMS, "mean_a", "mean_1"),
    (FORMS, "V_aa", "V_11"),
    (FORMS, "V_bb", "V_22"),
    (FORMS, "V_ab", "V_12"),
    (FORMS, "S_an", "S_1n"),
    (FORMS, "phi_norm", "phi_norm_sq"),
    (STATISTICS, "norms", "norm_sq"),
    (STATISTICS, "phi_norm", "phi_norm_sq"),
    (STATISTICS._batch, "phi_norm", "phi_norm_sq"),
]


@pytest.mark.parametrize(
    ("value", "old", "new"), MOVED, ids=lambda v: v if isinstance(v, str) else type(v).__name__
)
def test_an_old_name_gives_the_new_one_and_warns_here(value, old, new):
    with pytest.warns(FutureWarning, match=f"{old} is called {new} now") as caught:
        found = getattr(value, old)
    assert torch.equal(torch.as_tensor(found), torch.as_tensor(getattr(value, new)))
    assert caught[0].filename == __file__


def test_old_parameters_are_taken_and_warn():
    with pytest.warns(FutureWarning, match=r"Batch\(phi_norm=...\) is called phi_norm_sq now"):
        batch = Batch((PHI,), phi_norm=PHI[:, 0])
    assert batch.phi_norm_sq is batch.required("phi_norm_sq")
    total, outer = PHI.sum(0), PHI.mT @ PHI
    with pytest.warns(FutureWarning, match=r"Moments\(gram_aa=...\) is called sum_11 now"):
        moments = Moments(n=3, sum_a=total, sum_b=total, gram_aa=outer, gram_bb=outer)
    assert torch.equal(moments.S_11, Moments.of_rows(PHI).S_11)


def test_a_loss_may_need_a_field_by_its_old_name():
    class Old(Loss):
        needs = ("phi_norm",)

        def terms(self, batch):
            return {"left": (batch.phi_norm - batch.Z[0].square().sum(1)).mean()}

    with pytest.warns(FutureWarning, match="'phi_norm', which is called 'phi_norm_sq' now"):
        check_loss(Old())
    assert Old().fields_needed == ("phi_norm_sq",)


def test_files_keep_their_keys():
    assert set(MOMENTS.state()) == {"scalars", "sum_a", "sum_b", "gram_aa", "gram_bb", "gram_ab", "gram_an"}
    again = Moments.from_state(MOMENTS.state())
    assert torch.equal(again.sum_1n, MOMENTS.sum_1n)
