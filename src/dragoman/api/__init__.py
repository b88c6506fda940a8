"""The Python API for whole tasks, which the command line calls too: prepare, train, plan, finish, evaluate...

    result = dragoman.train(source="train.en", target="train.de", out="my-model")
    print(result.metrics["bleu"], [entry["loss"] for entry in result.curve if "loss" in entry])

Progress goes to stderr, with live bars in a terminal or notebook; `reporter=dragoman.SilentReporter()` hides it.
"""

from dragoman.api.distillation import DistillationResult as DistillationResult
from dragoman.api.distillation import distill as distill
from dragoman.api.evaluation import evaluate as evaluate
from dragoman.api.models import AverageResult as AverageResult
from dragoman.api.models import ExportResult as ExportResult
from dragoman.api.models import ImportResult as ImportResult
from dragoman.api.models import average as average
from dragoman.api.models import export_model as export_model
from dragoman.api.models import import_model as import_model
from dragoman.api.models import merge as merge
from dragoman.api.models import quantize as quantize
from dragoman.api.models import verify as verify
from dragoman.api.training import finish as finish
from dragoman.api.training import plan as plan
from dragoman.api.training import prepare as prepare
from dragoman.api.training import train as train
