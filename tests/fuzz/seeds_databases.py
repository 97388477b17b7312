"""SQLite databases that the fuzzer begins with, in pages of 512 bytes, so that a fault often hits their structure."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

ROCPD = """
CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
CREATE TABLE rocpd_info_agent (id INTEGER PRIMARY KEY, type TEXT, type_index INTEGER, product_name TEXT);
CREATE TABLE rocpd_info_kernel_symbol (id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT);
CREATE TABLE rocpd_info_pmc (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE rocpd_event (id INTEGER PRIMARY KEY, category_id INTEGER, extdata TEXT);
CREATE TABLE rocpd_pmc_event (id INTEGER PRIMARY KEY, event_id INTEGER, pmc_id INTEGER, value REAL);
CREATE TABLE rocpd_region (id INTEGER PRIMARY KEY, start BIGINT, "end" BIGINT, name_id INTEGER, event_id INTEGER);
CREATE TABLE rocpd_kernel_dispatch (id INTEGER PRIMARY KEY, agent_id INTEGER, kernel_id INTEGER, start BIGINT,
  "end" BIGINT, event_id INTEGER);
CREATE TABLE rocpd_memory_copy (id INTEGER PRIMARY KEY, start BIGINT, "end" BIGINT, name_id INTEGER);
INSERT INTO rocpd_string VALUES (1, 'hipLaunchKernel'), (3, 'roctxRangePushA'), (4, 'MARKER_CORE_API'), (5, 'COPY');
INSERT INTO rocpd_info_agent VALUES (5, 'GPU', 0, 'MI300X'), (6, 'GPU', 1, 'MI300X');
INSERT INTO rocpd_info_kernel_symbol VALUES (3, '_Z3add.kd', 'add(float*)');
INSERT INTO rocpd_info_pmc VALUES (7, 'SQ_WAVES');
INSERT INTO rocpd_event VALUES (1, 1, '{}'), (2, 4, '{"message": "forward"}'), (3, NULL, '{}');
INSERT INTO rocpd_region VALUES (1, 900, 1000, 1, 1), (2, 800, 2800, 3, 2);
INSERT INTO rocpd_kernel_dispatch VALUES (1, 5, 3, 3000, 3750, 3), (2, 5, 3, 1000, 1500, NULL), (3, 6, 3, 5, 9, NULL);
INSERT INTO rocpd_pmc_event VALUES (1, 3, 7, 10.0), (2, 3, 7, 6.0);
INSERT INTO rocpd_memory_copy VALUES (1, 10, 35, 5);
"""
NSYS = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, bytes INTEGER, copyKind INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER,
  domainId INTEGER);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER,
  nameId INTEGER);
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'HTOD', 'Host-to-Device');
INSERT INTO StringIds VALUES (1, 'gemm'), (4, 'forward'), (5, 'cudaLaunchKernel_v7000'), (6, 'step 7'), (7, 'step 8');
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (3000, 3750, 0, 7, 2, 16777216, 1, 1), (1000, 1500, 0, 7, 1, 16777216, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100, 350, 0, 4096, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 16777217, 1, 5), (2900, 2950, 16777217, 2, 5);
INSERT INTO NVTX_EVENTS VALUES (800, 2000, 59, NULL, 6, 16777217, 0), (2800, 4000, 59, NULL, 7, 16777217, 0);
INSERT INTO NVTX_EVENTS VALUES (1000, 4000, 59, NULL, 4, 16777217, 0), (0, NULL, 75, 'NCCL', NULL, 16777217, 9);
"""


def database(script: str) -> bytes:
    """The bytes of a database."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.db"
        connection = sqlite3.connect(path)
        connection.executescript("PRAGMA page_size = 512;" + script)
        connection.close()
        return path.read_bytes()
