"""The lane audit: finds collected tests that no CI lane selects."""
