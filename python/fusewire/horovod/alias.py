# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`import fusewire.horovod.alias`: from then on `import horovod.tensorflow` and the like import Fusewire's modules."""

from fusewire.horovod.finder import install

install()
