# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Which TensorFlows plug-ins are built for. Leaves FUSEWIRE_TENSORFLOWS, their versions, and for each VERSION
# FUSEWIRE_TENSORFLOW_<VERSION>, its folder, and FUSEWIRE_TENSORFLOW_FACTS_<VERSION>: JSON with its version and ABI.
set(FUSEWIRE_TENSORFLOW "" CACHE STRING
    "Build a plug-in for the TensorFlow in each of these folders; auto: for the one that Python_EXECUTABLE imports")
set(FUSEWIRE_TENSORFLOWS)
if(NOT FUSEWIRE_TENSORFLOW)
  return()
endif()

# -E: pip's build environment is entered through PYTHONPATH, and has no TensorFlow in it.
find_program(Python_EXECUTABLE python3 REQUIRED)
set(ask ${Python_EXECUTABLE} -E ${PROJECT_SOURCE_DIR}/python/tensorflow_facts.py)
set(folders ${FUSEWIRE_TENSORFLOW})
if(folders STREQUAL "auto")
  execute_process(COMMAND ${ask} find OUTPUT_VARIABLE folders RESULT_VARIABLE status
                  ERROR_VARIABLE why OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${why}")
  endif()
endif()

foreach(folder IN LISTS folders)
  # TensorFlow takes seconds to start: it is asked again only when its library is another one.
  file(TIMESTAMP ${folder}/libtensorflow_framework.so.2 stamp)
  string(MD5 asked "${folder} of ${stamp}")
  if(NOT FUSEWIRE_TENSORFLOW_ASKED_${asked})
    execute_process(COMMAND ${ask} facts ${folder} OUTPUT_VARIABLE answer RESULT_VARIABLE status
                    ERROR_VARIABLE why OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${why}")
    endif()
    set(FUSEWIRE_TENSORFLOW_ASKED_${asked} "${answer}" CACHE INTERNAL
        "What the TensorFlow in ${folder} says about itself")
  endif()
  set(facts "${FUSEWIRE_TENSORFLOW_ASKED_${asked}}")
  string(JSON version GET "${facts}" tensorflow)
  if(version IN_LIST FUSEWIRE_TENSORFLOWS)
    message(FATAL_ERROR "FUSEWIRE_TENSORFLOW names TensorFlow ${version} twice: ${folder} and "
                        "${FUSEWIRE_TENSORFLOW_${version}}; leave one of them out")
  endif()
  list(APPEND FUSEWIRE_TENSORFLOWS ${version})
  set(FUSEWIRE_TENSORFLOW_${version} ${folder})
  set(FUSEWIRE_TENSORFLOW_FACTS_${version} "${facts}")
  message(STATUS "TensorFlow ${version} in ${folder}")
endforeach()
