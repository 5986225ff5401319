"""Our rewards and rollouts with the signatures that training frameworks call.

None of the frameworks is imported, but by `verl_agent_loop`, `openrlhf` and those of verifiers, which only these
import.
"""
