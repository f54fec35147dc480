# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# All rooms in one library, static and shared, and what finds them: cmake --install BUILD --prefix PREFIX puts the
# public headers, libfusewire.a, libfusewire.so, the CMake package Fusewire and fusewire.pc into place.
#   find_package(Fusewire)   fusewire::fusewire (shared), fusewire::static
#   pkg-config fusewire      --static for the static one
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(sources GLOBAL PROPERTY FUSEWIRE_SOURCES)

# The rooms' own objects: everything in them stays hidden in what they are linked into.
get_property(objects GLOBAL PROPERTY FUSEWIRE_OBJECTS)
add_library(fusewire_static STATIC ${objects})
set_target_properties(fusewire_static PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME static)

# Compiled once more, with its names to be seen: those of the C API and of namespace fusewire; all else is hidden.
add_library(fusewire_shared SHARED ${sources})
target_compile_features(fusewire_shared PRIVATE cxx_std_20)
target_link_libraries(fusewire_shared PRIVATE fusewire_flags)
target_include_directories(fusewire_shared PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(fusewire_shared PRIVATE ${FUSEWIRE_NO_PATHS} -fno-semantic-interposition)
target_link_options(fusewire_shared PRIVATE -Wl,-Bsymbolic -Wl,-z,defs
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/fusewire_exports.map)
set_target_properties(
  fusewire_shared
  PROPERTIES UNITY_BUILD ON  # all of it was compiled file by file before
             CXX_VISIBILITY_PRESET default
             VISIBILITY_INLINES_HIDDEN OFF
             LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/fusewire_exports.map
             EXPORT_NAME fusewire
             VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

foreach(library fusewire_static fusewire_shared)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME fusewire ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
                                              LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_compile_features(${library} INTERFACE cxx_std_17)
  target_link_libraries(${library} PUBLIC Threads::Threads)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ${library} EXPORT fusewire_targets COMPONENT library
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fusewire COMPONENT library DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Fusewire)
install(EXPORT fusewire_targets NAMESPACE fusewire:: DESTINATION ${package} COMPONENT library)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/FusewireConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/package/FusewireConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/FusewireConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/fusewire.pc.in ${PROJECT_BINARY_DIR}/package/fusewire.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/FusewireConfig.cmake
              ${PROJECT_BINARY_DIR}/package/FusewireConfigVersion.cmake DESTINATION ${package} COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/package/fusewire.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT library)
