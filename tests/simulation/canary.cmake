# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# cmake -D program=... -D meddle=KIND -P canary.cmake: passes if the simulation finds what it was made to spoil.
set(twice)
if(meddle STREQUAL noise)
  set(twice --twice)
endif()
execute_process(COMMAND ${program} --seed 1 --count 4 ${twice} --meddle ${meddle}
                OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
if(NOT output MATCHES "expected: finding ([a-z-]+)")
  message(FATAL_ERROR "nothing was expected of ${meddle}:\n${output}")
endif()
if(NOT result EQUAL 1 OR NOT output MATCHES "seed [0-9]+: finding ${CMAKE_MATCH_1}:")
  message(FATAL_ERROR "${meddle} was not found (exit ${result}):\n${output}")
endif()
