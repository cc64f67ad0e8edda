"""The fixtures of the plugin, in a user's test."""

pytest_plugins = "pytester"


def test_the_target_is_the_chosen_one_and_one_per_session(project):
    project.pytester.makepyfile(
        """
        seen = []

        def test_first(mlir_target):
            seen.append(mlir_target)
            assert mlir_target.label == "null" and mlir_target.availability().usable

        def test_second(mlir_target):
            assert seen == [mlir_target]
        """
    )
    project.run("--difftest-target", "null").assert_outcomes(passed=2)


def test_a_target_that_cannot_be_had_skips(project):
    project.pytester.makepyfile("def test_it(mlir_target): pass")
    project.run("--difftest-target", "opt:./nothing").assert_outcomes(skipped=1)
    project.run("--difftest-target", "opt:./nothing", "--difftest-missing", "error").assert_outcomes(errors=1)


def test_a_device_is_fresh_for_each_test(project):
    project.pytester.makepyfile(
        """
        import numpy as np
        import pytest

        @pytest.mark.parametrize("turn", [0, 1])
        def test_memory(mlir_device, turn):
            address = mlir_device.allocate(4)
            assert not mlir_device.download(address, 4)[1].any()
            mlir_device.upload(address, np.arange(4, dtype=np.uint8))
            assert mlir_device.download(address, 4)[0].tolist() == [0, 1, 2, 3]
        """
    )
    project.run().assert_outcomes(passed=2)
