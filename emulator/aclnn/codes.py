"""Numbers and names of the ACL interface: statuses, dtypes, formats, modes.

Facts: the public headers ``acl_base.h`` and ``acl_rt.h`` (dtypes, formats, modes), opbase
``op_errno.h`` (statuses).
"""

from __future__ import annotations

__all__ = [
    "ACLNN_ERR_INNER",
    "ACLNN_ERR_INNER_CREATE_EXECUTOR",
    "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
    "ACLNN_ERR_INNER_INFERSHAPE_ERROR",
    "ACLNN_ERR_INNER_NULLPTR",
    "ACLNN_ERR_INNER_TILING_ERROR",
    "ACLNN_ERR_PARAM_INVALID",
    "ACLNN_ERR_PARAM_NULLPTR",
    "ACLNN_ERR_RUNTIME_ERROR",
    "ACLNN_SUCCESS",
    "ACL_BF16",
    "ACL_BOOL",
    "ACL_COMPLEX32",
    "ACL_COMPLEX64",
    "ACL_COMPLEX128",
    "ACL_DOUBLE",
    "ACL_DT_UNDEFINED",
    "ACL_ERROR_RT_PARAM_INVALID",
    "ACL_FLOAT",
    "ACL_FLOAT16",
    "ACL_FORMAT_FRACTAL_NZ",
    "ACL_FORMAT_FRACTAL_Z",
    "ACL_FORMAT_HWCN",
    "ACL_FORMAT_NC",
    "ACL_FORMAT_NC1HWC0",
    "ACL_FORMAT_NCDHW",
    "ACL_FORMAT_NCHW",
    "ACL_FORMAT_NCL",
    "ACL_FORMAT_ND",
    "ACL_FORMAT_NDC1HWC0",
    "ACL_FORMAT_NDHWC",
    "ACL_FORMAT_NHWC",
    "ACL_FORMAT_UNDEFINED",
    "ACL_FRACTAL_Z_3D",
    "ACL_INT4",
    "ACL_INT8",
    "ACL_INT16",
    "ACL_INT32",
    "ACL_INT64",
    "ACL_RT_OVERFLOW_MODE_INFNAN",
    "ACL_RT_OVERFLOW_MODE_SATURATION",
    "ACL_STRING",
    "ACL_SUCCESS",
    "ACL_UINT1",
    "ACL_UINT8",
    "ACL_UINT16",
    "ACL_UINT32",
    "ACL_UINT64",
    "REDUCTION_MEAN",
    "REDUCTION_NONE",
    "REDUCTION_SUM",
]

ACL_SUCCESS = 0
ACL_ERROR_RT_PARAM_INVALID = 107000

ACLNN_SUCCESS = 0
ACLNN_ERR_PARAM_NULLPTR = 161001
ACLNN_ERR_PARAM_INVALID = 161002
ACLNN_ERR_RUNTIME_ERROR = 361001
ACLNN_ERR_INNER = 561000
ACLNN_ERR_INNER_INFERSHAPE_ERROR = 561001
ACLNN_ERR_INNER_TILING_ERROR = 561002
ACLNN_ERR_INNER_FIND_KERNEL_ERROR = 561003
ACLNN_ERR_INNER_CREATE_EXECUTOR = 561101
ACLNN_ERR_INNER_NULLPTR = 561103

REDUCTION_NONE = 0
REDUCTION_MEAN = 1
REDUCTION_SUM = 2

ACL_RT_OVERFLOW_MODE_SATURATION = 0
ACL_RT_OVERFLOW_MODE_INFNAN = 1

DTYPES: dict[str, int] = {
    "undefined": -1,
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 6,
    "uint16": 7,
    "uint32": 8,
    "int64": 9,
    "uint64": 10,
    "float64": 11,
    "bool": 12,
    "string": 13,
    "complex64": 16,
    "complex128": 17,
    "bfloat16": 27,
    "int4": 29,
    "uint1": 30,
    "complex32": 33,
    "hifloat8": 34,
    "float8_e5m2": 35,
    "float8_e4m3fn": 36,
    "float8_e8m0": 37,
    "float6_e3m2": 38,
    "float6_e2m3": 39,
    "float4_e2m1": 40,
    "float4_e1m2": 41,
}
"""``aclDataType`` by lower-case name: NumPy's where it has one, else ACL's."""

DTYPE_NAMES = {number: name for name, number in DTYPES.items()}

_SPELLINGS = {"float32": "FLOAT", "float64": "DOUBLE"}

NUMPY_DTYPES = frozenset(
    (
        *("float32", "float16", "float64", "bool", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
)
"""Dtypes that NumPy has under the same name; bfloat16 comes from ml_dtypes."""

FORMATS: dict[str, int] = {
    "UNDEFINED": -1,
    "NCHW": 0,
    "NHWC": 1,
    "ND": 2,
    "NC1HWC0": 3,
    "FRACTAL_Z": 4,
    "NC1HWC0_C04": 12,
    "HWCN": 16,
    "NDHWC": 27,
    "FRACTAL_NZ": 29,
    "NCDHW": 30,
    "NDC1HWC0": 32,
    "FRACTAL_Z_3D": 33,
    "NC": 35,
    "NCL": 47,
    "FRACTAL_NZ_C0_16": 50,
    "FRACTAL_NZ_C0_32": 51,
    "FRACTAL_NZ_C0_2": 52,
    "FRACTAL_NZ_C0_4": 53,
    "FRACTAL_NZ_C0_8": 54,
}
"""``aclFormat`` by name, without the ``ACL_FORMAT_`` prefix."""

FORMAT_ND = FORMATS["ND"]

PRIVATE_FORMATS = frozenset((3, 4, 12, 29, 32, 33, 50, 51, 52, 53, 54))
"""Formats whose storage is not the view's elements in order."""


def dtype_text(number: int) -> str:
    """A dtype as messages spell it: ``DT_FLOAT``, ``DT_BFLOAT16``, ``DT_INT32``."""
    name = DTYPE_NAMES.get(number, "undefined")
    return f"DT_{_SPELLINGS.get(name, name.upper())}"


ACL_DT_UNDEFINED = DTYPES["undefined"]
ACL_FLOAT = DTYPES["float32"]
ACL_FLOAT16 = DTYPES["float16"]
ACL_INT8 = DTYPES["int8"]
ACL_INT32 = DTYPES["int32"]
ACL_UINT8 = DTYPES["uint8"]
ACL_INT16 = DTYPES["int16"]
ACL_UINT16 = DTYPES["uint16"]
ACL_UINT32 = DTYPES["uint32"]
ACL_INT64 = DTYPES["int64"]
ACL_UINT64 = DTYPES["uint64"]
ACL_DOUBLE = DTYPES["float64"]
ACL_BOOL = DTYPES["bool"]
ACL_STRING = DTYPES["string"]
ACL_COMPLEX64 = DTYPES["complex64"]
ACL_COMPLEX128 = DTYPES["complex128"]
ACL_BF16 = DTYPES["bfloat16"]
ACL_INT4 = DTYPES["int4"]
ACL_UINT1 = DTYPES["uint1"]
ACL_COMPLEX32 = DTYPES["complex32"]

ACL_FORMAT_UNDEFINED = FORMATS["UNDEFINED"]
ACL_FORMAT_NCHW = FORMATS["NCHW"]
ACL_FORMAT_NHWC = FORMATS["NHWC"]
ACL_FORMAT_ND = FORMATS["ND"]
ACL_FORMAT_NC1HWC0 = FORMATS["NC1HWC0"]
ACL_FORMAT_FRACTAL_Z = FORMATS["FRACTAL_Z"]
ACL_FORMAT_HWCN = FORMATS["HWCN"]
ACL_FORMAT_NDHWC = FORMATS["NDHWC"]
ACL_FORMAT_FRACTAL_NZ = FORMATS["FRACTAL_NZ"]
ACL_FORMAT_NCDHW = FORMATS["NCDHW"]
ACL_FORMAT_NDC1HWC0 = FORMATS["NDC1HWC0"]
ACL_FRACTAL_Z_3D = FORMATS["FRACTAL_Z_3D"]
ACL_FORMAT_NC = FORMATS["NC"]
ACL_FORMAT_NCL = FORMATS["NCL"]
