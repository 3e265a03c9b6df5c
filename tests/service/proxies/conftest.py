"""Chromium, as for the viewer's tests."""

from tests.service.viewer.conftest import browser

__all__ = ["browser"]
