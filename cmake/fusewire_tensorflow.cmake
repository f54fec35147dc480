# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Which TensorFlow the plug-in is built for. Leaves FUSEWIRE_TENSORFLOW, its folder, and FUSEWIRE_TENSORFLOW_FACTS: JSON
# with its version and ABI; FUSEWIRE_TENSORFLOW_VERSION is the first of these.
set(FUSEWIRE_TENSORFLOW "" CACHE STRING
    "Build the plug-in for the TensorFlow in this folder; auto: for the one that Python_EXECUTABLE imports")
if(NOT FUSEWIRE_TENSORFLOW)
  return()
endif()

# -E: pip's build environment is entered through PYTHONPATH, and has no TensorFlow in it.
find_program(Python_EXECUTABLE python3 REQUIRED)
set(ask ${Python_EXECUTABLE} -E ${PROJECT_SOURCE_DIR}/python/tensorflow_facts.py)
if(FUSEWIRE_TENSORFLOW STREQUAL "auto")
  execute_process(COMMAND ${ask} find OUTPUT_VARIABLE FUSEWIRE_TENSORFLOW RESULT_VARIABLE status
                  ERROR_VARIABLE why OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${why}")
  endif()
endif()

# TensorFlow takes seconds to start: it is asked again only when its library is another one.
file(TIMESTAMP ${FUSEWIRE_TENSORFLOW}/libtensorflow_framework.so.2 stamp)
set(asked "${FUSEWIRE_TENSORFLOW} of ${stamp}")
if(NOT FUSEWIRE_TENSORFLOW_ASKED STREQUAL asked)
  execute_process(COMMAND ${ask} facts ${FUSEWIRE_TENSORFLOW} OUTPUT_VARIABLE answer RESULT_VARIABLE status
                  ERROR_VARIABLE why OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${why}")
  endif()
  set(FUSEWIRE_TENSORFLOW_FACTS "${answer}" CACHE INTERNAL "What TensorFlow says about itself")
  set(FUSEWIRE_TENSORFLOW_ASKED "${asked}" CACHE INTERNAL "Which TensorFlow said so")
endif()
string(JSON FUSEWIRE_TENSORFLOW_VERSION GET "${FUSEWIRE_TENSORFLOW_FACTS}" tensorflow)
message(STATUS "TensorFlow ${FUSEWIRE_TENSORFLOW_VERSION} in ${FUSEWIRE_TENSORFLOW}")
