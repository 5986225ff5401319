"""Our rewards with the signatures that training frameworks call. None of the frameworks is imported."""
