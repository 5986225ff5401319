"""The views of the curators' page. Each module shows one; only these and `inspector.page` import Streamlit."""
