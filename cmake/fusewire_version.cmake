# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Leaves FUSEWIRE_VERSION, what this build calls itself: between releases it names the commit, see fusewire_version.py.
if(SKBUILD)
  set(FUSEWIRE_VERSION ${SKBUILD_PROJECT_VERSION_FULL})
elseif(NOT (FUSEWIRE_TENSORFLOW OR FUSEWIRE_LIBRARY))
  set(FUSEWIRE_VERSION ${PROJECT_VERSION}.dev0)  # nothing compares it, and each commit would link all tests again
else()
  find_program(FUSEWIRE_PYTHON3 python3 REQUIRED)
  execute_process(COMMAND ${FUSEWIRE_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/fusewire_version.py
                  OUTPUT_VARIABLE FUSEWIRE_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
