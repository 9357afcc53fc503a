"""Policies that propose their contacts, trained for a task and for physical consistency at the same time."""

from pullback.dexterous.choosing import Chosen, train_and_choose
from pullback.dexterous.consistency import Consistency, Goal, Weights
from pullback.dexterous.drawing import draw_proposals, draw_trial
from pullback.dexterous.goals import Along, GripFrom, Scattered, To
from pullback.dexterous.hand import Hand
from pullback.dexterous.objects import Assortment, Objects, with_object
from pullback.dexterous.policy import ContactPolicy
from pullback.dexterous.problem import ContactProblem, Training
from pullback.dexterous.scene import Batch, Scene, States
from pullback.dexterous.task import Manipulation, Wanted
from pullback.dexterous.training import Quality, judge, train
from pullback.dexterous.trial import MODES, PLANTS, Trial, try_policy

__all__ = [
    "MODES",
    "PLANTS",
    "Along",
    "Assortment",
    "Batch",
    "Chosen",
    "Consistency",
    "ContactPolicy",
    "ContactProblem",
    "Goal",
    "GripFrom",
    "Hand",
    "Manipulation",
    "Objects",
    "Quality",
    "Scattered",
    "Scene",
    "States",
    "To",
    "Training",
    "Trial",
    "Wanted",
    "Weights",
    "draw_proposals",
    "draw_trial",
    "judge",
    "train",
    "train_and_choose",
    "try_policy",
    "with_object",
]
