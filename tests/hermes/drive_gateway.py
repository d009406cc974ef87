"""Drive Hermes' real gateway, step by step. The steps are described in `rig_gateway`; the package has the driver."""

from __future__ import annotations

from tests.hermes.drive_steps import Outlet, driver

if __name__ == "__main__":
    driver.main(Outlet())
