# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The programs that the tests start by forking."""

import os

import warm


def test_a_forked_program_leads_its_session_before_its_number_is_known():
    for _ in range(50):
        pid = warm.fork_in_session()
        if pid == 0:
            os._exit(0)
        try:
            assert os.getpgid(pid) == os.getsid(pid) == pid
        finally:
            os.waitpid(pid, 0)
