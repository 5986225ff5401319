"""What tests of figures read."""

from tests.support.figures import texts  # noqa: F401 - a fixture
