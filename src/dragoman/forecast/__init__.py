"""Forecasting of series of numbers with the Transformer's layers and trainer.

from dragoman import forecast

forecast.train("data.csv", target="OT", horizon=96, out="model")
print(forecast.evaluate("model", "data.csv").table())
print(forecast.predict("model", "data.csv").to_csv())
"""

from dragoman.config.forecast import ForecasterRecipe, ForecastRecipe
from dragoman.forecast.api import Forecast, ForecastTraining, LoadedForecaster, evaluate, load, predict, train
from dragoman.forecast.data.series import Series, read_series
from dragoman.forecast.evaluation import ForecastReport
from dragoman.forecast.model import DecoderForecaster, DirectForecaster, Forecaster

__all__ = [
    "DecoderForecaster",
    "DirectForecaster",
    "Forecast",
    "ForecastRecipe",
    "ForecastReport",
    "ForecastTraining",
    "Forecaster",
    "ForecasterRecipe",
    "LoadedForecaster",
    "Series",
    "evaluate",
    "load",
    "predict",
    "read_series",
    "train",
]
