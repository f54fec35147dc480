# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# The words that the CMakeLists.txt of rooms, tests, benchmarks and programs are written in.

# fusewire_room(NAME USES room... DOORS x.h... SOURCES x.cc... TESTS x... [TEST_USES room...])
#   Library fusewire_<NAME> from SOURCES, over the rooms in USES. Other rooms may include its public headers, which are
#   those below include/fusewire/<NAME>, and DOORS. Public headers compile alone as C++17, the others as C++20. TESTS
#   names x_test.cc files: together, fusewire_<NAME>_tests, which use the room and TEST_USES.
function(fusewire_room name)
  cmake_parse_arguments(ARG "" "TEST_TIMEOUT_S" "USES;DOORS;SOURCES;TESTS;TEST_USES" ${ARGN})
  _fusewire_refuse_unknown(${name})
  list(TRANSFORM ARG_USES PREPEND fusewire_ OUTPUT_VARIABLE used)
  if(ARG_SOURCES)
    add_library(fusewire_${name} STATIC ${ARG_SOURCES})
    target_compile_features(fusewire_${name} PRIVATE cxx_std_20)
    target_link_libraries(fusewire_${name} PUBLIC fusewire_include ${used} PRIVATE fusewire_flags)
    target_compile_options(fusewire_${name} PRIVATE ${FUSEWIRE_NO_PATHS})
    set_target_properties(fusewire_${name} PROPERTIES UNITY_BUILD ${FUSEWIRE_UNITY} UNITY_BUILD_BATCH_SIZE 16)
    set_property(GLOBAL APPEND PROPERTY FUSEWIRE_OBJECTS $<TARGET_OBJECTS:fusewire_${name}>)
  else()
    add_library(fusewire_${name} INTERFACE)
    target_link_libraries(fusewire_${name} INTERFACE fusewire_include ${used})
  endif()
  add_library(fusewire::${name} ALIAS fusewire_${name})
  set_property(GLOBAL APPEND PROPERTY FUSEWIRE_ROOMS ${name})
  foreach(source IN LISTS ARG_SOURCES)
    set_property(GLOBAL APPEND PROPERTY FUSEWIRE_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()

  if(NOT BUILD_TESTING)
    return()
  endif()
  if(FUSEWIRE_HEADERS_ALONE AND NOT FUSEWIRE_SANITIZE)  # Once is enough; a sanitizer adds nothing here.
    file(GLOB_RECURSE public RELATIVE ${PROJECT_SOURCE_DIR}/include/fusewire/${name} CONFIGURE_DEPENDS
         ${PROJECT_SOURCE_DIR}/include/fusewire/${name}/*.h)
    _fusewire_headers_alone(${name} 17 ${public})
    file(GLOB_RECURSE headers RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.h)
    foreach(source IN LISTS ARG_SOURCES)  # x.cc includes x.h first: tools/tidy.py checks it
      string(REGEX REPLACE "cc$" "h" header ${source})
      list(REMOVE_ITEM headers ${header})
    endforeach()
    _fusewire_headers_alone(${name} 20 ${headers})
    if(ARG_TEST_USES AND TARGET fusewire_${name}_alone_cxx20)  # a test's header includes what the tests use
      list(TRANSFORM ARG_TEST_USES PREPEND fusewire_ OUTPUT_VARIABLE test_used)
      target_link_libraries(fusewire_${name}_alone_cxx20 PRIVATE ${test_used})
    endif()
  endif()
  if(ARG_TESTS)
    list(TRANSFORM ARG_TESTS APPEND _test.cc)
    fusewire_test(fusewire_${name}_tests SOURCES ${ARG_TESTS} USES ${name} ${ARG_TEST_USES} LABEL ${name}
                  TIMEOUT_S ${ARG_TEST_TIMEOUT_S})
  endif()
endfunction()

# fusewire_test(NAME SOURCES x.cc... USES room... [LIBRARIES lib...] [LABEL label] [TIMEOUT_S seconds])
#   A GoogleTest program; each of its tests is a ctest of its own, ended after TIMEOUT_S (60 by default).
#   Label slow: left to make test-all, and out of the thread sanitizer's run. Label thorough: left to make test-all.
function(fusewire_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT_S" "SOURCES;USES;LIBRARIES" ${ARGN})
  _fusewire_refuse_unknown(${name})
  if(FUSEWIRE_FUZZ)
    return()
  endif()
  _fusewire_executable(${name})
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main)
  _fusewire_test_options(${name})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${FUSEWIRE_UNITY} UNITY_BUILD_BATCH_SIZE 4)
  # What libraries define was not defined when GoogleTest was compiled: gcc does not mind, clang does.
  if(NOT ARG_LIBRARIES OR CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    _fusewire_with_googletest(${name})
  endif()
  if(NOT ARG_TIMEOUT_S)
    set(ARG_TIMEOUT_S 60)
  endif()
  math(EXPR limit_s "${ARG_TIMEOUT_S} * ${FUSEWIRE_TEST_SLOWDOWN}")
  # The prefix keeps names apart: ctest gives the properties of one test to every other test of the same name.
  string(REGEX REPLACE "^fusewire_(.*)_tests$" "\\1" prefix ${name})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX ${prefix}.
                       PROPERTIES TIMEOUT ${limit_s} LABELS "${ARG_LABEL}")
endfunction()

# fusewire_program(NAME SOURCES x.cc... USES room... [LIBRARIES lib...])
#   An executable in <build>/bin: an example, the demo, a helper that a test starts.
function(fusewire_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LIBRARIES" ${ARGN})
  _fusewire_refuse_unknown(${name})
  _fusewire_executable(${name})
endfunction()

# fusewire_bench(NAME SOURCES x.cc... USES room... [LIBRARIES lib...] [SMOKE argument...])
#   A benchmark program. With SMOKE, ctest runs it once with these arguments, under the label bench-smoke.
function(fusewire_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LIBRARIES;SMOKE" ${ARGN})
  _fusewire_refuse_unknown(${name})
  _fusewire_executable(${name})
  if(ARG_SMOKE AND BUILD_TESTING)
    add_test(NAME bench_smoke.${name} COMMAND ${name} ${ARG_SMOKE})
    math(EXPR limit_s "120 * ${FUSEWIRE_TEST_SLOWDOWN}")
    set_tests_properties(bench_smoke.${name} PROPERTIES LABELS bench-smoke TIMEOUT ${limit_s} RUN_SERIAL ON)
  endif()
endfunction()

# fusewire_fuzzer(NAME SOURCES x.cc... CORPUS folder USES room...)
#   SOURCES define LLVMFuzzerTestOneInput. In the fuzz preset ctest runs it FUSEWIRE_FUZZ_RUNS times from the corpus;
#   in a build without sanitizers ctest replays the corpus (seeds and past findings) through the same code.
#   Labels: fuzz, room.
#   COST: what takes long begins first. RUNS: no more than these, where one execution is a whole world. PART: one of so
#   many of FUSEWIRE_FUZZ_RUNS, where one takes long.
function(fusewire_fuzzer name)
  cmake_parse_arguments(ARG "" "CORPUS;COST;RUNS;PART" "SOURCES;USES;LIBRARIES" ${ARGN})
  _fusewire_refuse_unknown(${name})
  if(FUSEWIRE_SANITIZE AND NOT FUSEWIRE_FUZZ)  # the preset fuzz replays each corpus under AddressSanitizer
    return()
  endif()
  cmake_path(ABSOLUTE_PATH ARG_CORPUS OUTPUT_VARIABLE corpus)
  if(NOT FUSEWIRE_FUZZ)
    list(APPEND ARG_SOURCES ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc)
  endif()
  _fusewire_executable(fuzz_${name})
  math(EXPR limit_s "60 * ${FUSEWIRE_TEST_SLOWDOWN}")
  if(FUSEWIRE_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    # What the fuzzer learns goes into the build folder; a finding is copied to the corpus by hand, with its test.
    set(learnt ${PROJECT_BINARY_DIR}/fuzz/${name}/learnt)
    set(findings ${PROJECT_BINARY_DIR}/fuzz/${name}/findings)
    file(MAKE_DIRECTORY ${learnt} ${findings})
    set(test fuzz.${name})
    set(runs ${FUSEWIRE_FUZZ_RUNS})
    if(ARG_PART)
      math(EXPR runs "${runs} / ${ARG_PART} + 1")
    endif()
    if(ARG_RUNS AND ARG_RUNS LESS runs)
      set(runs ${ARG_RUNS})
    endif()
    add_test(NAME ${test}
             COMMAND fuzz_${name} -runs=${runs} -timeout=10 -rss_limit_mb=1024 -entropic=0
                     -artifact_prefix=${findings}/ ${learnt} ${corpus})
    set(limit_s 1800)
    # Like -entropic=0: a million executions in two thirds of the time.
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "ASAN_OPTIONS=malloc_context_size=1:quarantine_size_mb=16"
                         COST ${ARG_COST})
  else()
    set(test fuzz_replay.${name})
    add_test(NAME ${test} COMMAND fuzz_${name} ${corpus})
  endif()
  set_tests_properties(${test} PROPERTIES LABELS "fuzz;${ARG_USES}" TIMEOUT ${limit_s})
endfunction()

# Below: helpers of the words above.

macro(_fusewire_refuse_unknown name)
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: don't know what to do with: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
endmacro()

macro(_fusewire_executable name)
  add_executable(${name} ${ARG_SOURCES})
  target_compile_features(${name} PRIVATE cxx_std_20)
  list(TRANSFORM ARG_USES PREPEND fusewire_ OUTPUT_VARIABLE _used)
  target_link_libraries(${name} PRIVATE ${_used} fusewire_include fusewire_flags ${ARG_LIBRARIES})
endmacro()

# clang takes half as long for an instrumented test that is not optimised; what it tests is.
macro(_fusewire_test_options name)
  if(FUSEWIRE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${name} PRIVATE -O0)
  endif()
endmacro()

# GoogleTest's headers, compiled once for all tests: without, they are a third of each test's compilation.
macro(_fusewire_with_googletest name)
  if(NOT TARGET fusewire_googletest)
    set(_empty ${PROJECT_BINARY_DIR}/googletest/empty.cc)
    file(CONFIGURE OUTPUT ${_empty} CONTENT "")
    add_executable(fusewire_googletest ${_empty})  # not a library: those are compiled to lie anywhere
    target_compile_features(fusewire_googletest PRIVATE cxx_std_20)
    target_link_libraries(fusewire_googletest PRIVATE fusewire_flags GTest::gmock GTest::gtest_main)
    _fusewire_test_options(fusewire_googletest)
    target_precompile_headers(fusewire_googletest PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  target_precompile_headers(${name} REUSE_FROM fusewire_googletest)
endmacro()

# Compiles each header of a room in a file of its own, unoptimised: it must bring everything it needs.
function(_fusewire_headers_alone name standard)
  set(sources)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/src OUTPUT_VARIABLE folder)
  foreach(header IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER ${header} stem)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/alone_cxx${standard}/${stem}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@folder@/@header@\"\n" @ONLY)
    list(APPEND sources ${source})
  endforeach()
  if(sources)
    set(target fusewire_${name}_alone_cxx${standard})
    add_library(${target} OBJECT ${sources})
    target_link_libraries(${target} PRIVATE fusewire_${name} fusewire_flags)
    target_compile_options(${target} PRIVATE -O0 -g0)
    set_target_properties(${target} PROPERTIES CXX_STANDARD ${standard} CXX_STANDARD_REQUIRED ON)
  endif()
endfunction()
