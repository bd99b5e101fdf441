# Written by `python -m tools.stubs`.
from gradwalk.ops.elementwise.activation import erf as erf
from gradwalk.ops.elementwise.activation import leaky_relu as leaky_relu
from gradwalk.ops.elementwise.activation import relu as relu
from gradwalk.ops.elementwise.activation import sigmoid as sigmoid
from gradwalk.ops.elementwise.activation import softplus as softplus
from gradwalk.ops.elementwise.arithmetic import abs as abs
from gradwalk.ops.elementwise.arithmetic import abs as absolute
from gradwalk.ops.elementwise.arithmetic import add as add
from gradwalk.ops.elementwise.arithmetic import ceil as ceil
from gradwalk.ops.elementwise.arithmetic import div as div
from gradwalk.ops.elementwise.arithmetic import div as divide
from gradwalk.ops.elementwise.arithmetic import div as true_divide
from gradwalk.ops.elementwise.arithmetic import exp as exp
from gradwalk.ops.elementwise.arithmetic import exp2 as exp2
from gradwalk.ops.elementwise.arithmetic import expm1 as expm1
from gradwalk.ops.elementwise.arithmetic import floor as floor
from gradwalk.ops.elementwise.arithmetic import frac as frac
from gradwalk.ops.elementwise.arithmetic import log as log
from gradwalk.ops.elementwise.arithmetic import log1p as log1p
from gradwalk.ops.elementwise.arithmetic import log2 as log2
from gradwalk.ops.elementwise.arithmetic import log10 as log10
from gradwalk.ops.elementwise.arithmetic import mul as mul
from gradwalk.ops.elementwise.arithmetic import mul as multiply
from gradwalk.ops.elementwise.arithmetic import neg as neg
from gradwalk.ops.elementwise.arithmetic import neg as negative
from gradwalk.ops.elementwise.arithmetic import pow as pow
from gradwalk.ops.elementwise.arithmetic import reciprocal as reciprocal
from gradwalk.ops.elementwise.arithmetic import round as round
from gradwalk.ops.elementwise.arithmetic import rsqrt as rsqrt
from gradwalk.ops.elementwise.arithmetic import sign as sgn
from gradwalk.ops.elementwise.arithmetic import sign as sign
from gradwalk.ops.elementwise.arithmetic import sqrt as sqrt
from gradwalk.ops.elementwise.arithmetic import square as square
from gradwalk.ops.elementwise.arithmetic import sub as sub
from gradwalk.ops.elementwise.arithmetic import sub as subtract
from gradwalk.ops.elementwise.arithmetic import trunc as fix
from gradwalk.ops.elementwise.arithmetic import trunc as trunc
from gradwalk.ops.elementwise.bessel import gammainc as igamma
from gradwalk.ops.elementwise.bessel import gammaincc as igammac
from gradwalk.ops.elementwise.bessel import i0 as i0
from gradwalk.ops.elementwise.bessel import mvlgamma as mvlgamma
from gradwalk.ops.elementwise.choice import bitwise_and as bitwise_and
from gradwalk.ops.elementwise.choice import bitwise_not as bitwise_not
from gradwalk.ops.elementwise.choice import bitwise_or as bitwise_or
from gradwalk.ops.elementwise.choice import bitwise_xor as bitwise_xor
from gradwalk.ops.elementwise.choice import clamp_max as clamp_max
from gradwalk.ops.elementwise.choice import clamp_min as clamp_min
from gradwalk.ops.elementwise.choice import clip as clamp
from gradwalk.ops.elementwise.choice import clip as clip
from gradwalk.ops.elementwise.choice import equal as eq
from gradwalk.ops.elementwise.choice import greater as greater
from gradwalk.ops.elementwise.choice import greater as gt
from gradwalk.ops.elementwise.choice import greater_equal as ge
from gradwalk.ops.elementwise.choice import greater_equal as greater_equal
from gradwalk.ops.elementwise.choice import less as less
from gradwalk.ops.elementwise.choice import less as lt
from gradwalk.ops.elementwise.choice import less_equal as le
from gradwalk.ops.elementwise.choice import less_equal as less_equal
from gradwalk.ops.elementwise.choice import logical_and as logical_and
from gradwalk.ops.elementwise.choice import logical_not as logical_not
from gradwalk.ops.elementwise.choice import logical_or as logical_or
from gradwalk.ops.elementwise.choice import logical_xor as logical_xor
from gradwalk.ops.elementwise.choice import maximum as maximum
from gradwalk.ops.elementwise.choice import minimum as minimum
from gradwalk.ops.elementwise.choice import not_equal as ne
from gradwalk.ops.elementwise.choice import not_equal as not_equal
from gradwalk.ops.elementwise.comparison import allclose as allclose
from gradwalk.ops.elementwise.comparison import broadcast_shapes as broadcast_shapes
from gradwalk.ops.elementwise.comparison import equal as equal
from gradwalk.ops.elementwise.comparison import fmax as fmax
from gradwalk.ops.elementwise.comparison import fmin as fmin
from gradwalk.ops.elementwise.comparison import is_complex as is_complex
from gradwalk.ops.elementwise.comparison import is_floating_point as is_floating_point
from gradwalk.ops.elementwise.comparison import is_nonzero as is_nonzero
from gradwalk.ops.elementwise.comparison import is_same_size as is_same_size
from gradwalk.ops.elementwise.comparison import is_signed as is_signed
from gradwalk.ops.elementwise.comparison import isclose as isclose
from gradwalk.ops.elementwise.comparison import isin as isin
from gradwalk.ops.elementwise.comparison import isneginf as isneginf
from gradwalk.ops.elementwise.comparison import isposinf as isposinf
from gradwalk.ops.elementwise.comparison import isreal as isreal
from gradwalk.ops.elementwise.comparison import numel as numel
from gradwalk.ops.elementwise.comparison import positive as positive
from gradwalk.ops.elementwise.comparison import signbit as signbit
from gradwalk.ops.elementwise.complex_numbers import adjoint as adjoint
from gradwalk.ops.elementwise.complex_numbers import angle as angle
from gradwalk.ops.elementwise.complex_numbers import complex as complex
from gradwalk.ops.elementwise.complex_numbers import conj as conj
from gradwalk.ops.elementwise.complex_numbers import conj_physical as conj_physical
from gradwalk.ops.elementwise.complex_numbers import imag as imag
from gradwalk.ops.elementwise.complex_numbers import is_conj as is_conj
from gradwalk.ops.elementwise.complex_numbers import real as real
from gradwalk.ops.elementwise.complex_numbers import resolve_conj as resolve_conj
from gradwalk.ops.elementwise.complex_numbers import resolve_conj as resolve_neg
from gradwalk.ops.elementwise.complex_numbers import view_as_complex as view_as_complex
from gradwalk.ops.elementwise.complex_numbers import view_as_real as view_as_real
from gradwalk.ops.elementwise.integers import bitwise_left_shift as bitwise_left_shift
from gradwalk.ops.elementwise.integers import bitwise_right_shift as bitwise_right_shift
from gradwalk.ops.elementwise.integers import frexp as frexp
from gradwalk.ops.elementwise.integers import gcd as gcd
from gradwalk.ops.elementwise.integers import lcm as lcm
from gradwalk.ops.elementwise.integers import ldexp as ldexp
from gradwalk.ops.elementwise.integers import nextafter as nextafter
from gradwalk.ops.elementwise.remainders import addcdiv as addcdiv
from gradwalk.ops.elementwise.remainders import addcmul as addcmul
from gradwalk.ops.elementwise.remainders import copysign as copysign
from gradwalk.ops.elementwise.remainders import float_power as float_power
from gradwalk.ops.elementwise.remainders import floor_divide as floor_divide
from gradwalk.ops.elementwise.remainders import fmod as fmod
from gradwalk.ops.elementwise.remainders import heaviside as heaviside
from gradwalk.ops.elementwise.remainders import isfinite as isfinite
from gradwalk.ops.elementwise.remainders import isinf as isinf
from gradwalk.ops.elementwise.remainders import isnan as isnan
from gradwalk.ops.elementwise.remainders import lerp as lerp
from gradwalk.ops.elementwise.remainders import nan_to_num as nan_to_num
from gradwalk.ops.elementwise.remainders import remainder as remainder
from gradwalk.ops.elementwise.remainders import rsub as rsub
from gradwalk.ops.elementwise.special import digamma as digamma
from gradwalk.ops.elementwise.special import erfc as erfc
from gradwalk.ops.elementwise.special import erfinv as erfinv
from gradwalk.ops.elementwise.special import lgamma as lgamma
from gradwalk.ops.elementwise.special import logaddexp as logaddexp
from gradwalk.ops.elementwise.special import logaddexp2 as logaddexp2
from gradwalk.ops.elementwise.special import logit as logit
from gradwalk.ops.elementwise.special import polygamma as polygamma
from gradwalk.ops.elementwise.special import xlogy as xlogy
from gradwalk.ops.elementwise.trigonometry import acos as acos
from gradwalk.ops.elementwise.trigonometry import acos as arccos
from gradwalk.ops.elementwise.trigonometry import acosh as acosh
from gradwalk.ops.elementwise.trigonometry import acosh as arccosh
from gradwalk.ops.elementwise.trigonometry import asin as arcsin
from gradwalk.ops.elementwise.trigonometry import asin as asin
from gradwalk.ops.elementwise.trigonometry import asinh as arcsinh
from gradwalk.ops.elementwise.trigonometry import asinh as asinh
from gradwalk.ops.elementwise.trigonometry import atan as arctan
from gradwalk.ops.elementwise.trigonometry import atan as atan
from gradwalk.ops.elementwise.trigonometry import atan2 as arctan2
from gradwalk.ops.elementwise.trigonometry import atan2 as atan2
from gradwalk.ops.elementwise.trigonometry import atanh as arctanh
from gradwalk.ops.elementwise.trigonometry import atanh as atanh
from gradwalk.ops.elementwise.trigonometry import cos as cos
from gradwalk.ops.elementwise.trigonometry import cosh as cosh
from gradwalk.ops.elementwise.trigonometry import deg2rad as deg2rad
from gradwalk.ops.elementwise.trigonometry import hypot as hypot
from gradwalk.ops.elementwise.trigonometry import polar as polar
from gradwalk.ops.elementwise.trigonometry import rad2deg as rad2deg
from gradwalk.ops.elementwise.trigonometry import sin as sin
from gradwalk.ops.elementwise.trigonometry import sinc as sinc
from gradwalk.ops.elementwise.trigonometry import sinh as sinh
from gradwalk.ops.elementwise.trigonometry import tan as tan
from gradwalk.ops.elementwise.trigonometry import tanh as tanh
from gradwalk.ops.index.indexing import checked_gather as gather
from gradwalk.ops.index.indexing import index_select as index_select
from gradwalk.ops.index.indexing import scatter_add as scatter_add
from gradwalk.ops.index.indexing import take as take
from gradwalk.ops.index.indexing import take_along_dim as take_along_dim
from gradwalk.ops.index.picking import argwhere as argwhere
from gradwalk.ops.index.picking import fill as fill
from gradwalk.ops.index.picking import index_add as index_add
from gradwalk.ops.index.picking import index_copy as index_copy
from gradwalk.ops.index.picking import index_fill as index_fill
from gradwalk.ops.index.picking import index_put as index_put
from gradwalk.ops.index.picking import masked_fill as masked_fill
from gradwalk.ops.index.picking import masked_select as masked_select
from gradwalk.ops.index.picking import nonzero as nonzero
from gradwalk.ops.index.picking import nonzero_static as nonzero_static
from gradwalk.ops.index.picking import scatter as scatter
from gradwalk.ops.index.picking import where as where
from gradwalk.ops.index.placing import diagonal_scatter as diagonal_scatter
from gradwalk.ops.index.placing import index_reduce as index_reduce
from gradwalk.ops.index.placing import masked_scatter as masked_scatter
from gradwalk.ops.index.placing import put as put
from gradwalk.ops.index.placing import scatter_reduce as scatter_reduce
from gradwalk.ops.index.placing import select_scatter as select_scatter
from gradwalk.ops.index.placing import slice_scatter as slice_scatter
from gradwalk.ops.index.placing import unravel_index as unravel_index
from gradwalk.ops.index.segments import segment_reduce as segment_reduce
from gradwalk.ops.linear.lu import lu_unpack as lu_unpack
from gradwalk.ops.linear.matmul import addbmm as addbmm
from gradwalk.ops.linear.matmul import addmm as addmm
from gradwalk.ops.linear.matmul import addmv as addmv
from gradwalk.ops.linear.matmul import baddbmm as baddbmm
from gradwalk.ops.linear.matmul import bmm as bmm
from gradwalk.ops.linear.matmul import dot as dot
from gradwalk.ops.linear.matmul import einsum as einsum
from gradwalk.ops.linear.matmul import inner as inner
from gradwalk.ops.linear.matmul import kron as kron
from gradwalk.ops.linear.matmul import linear as linear
from gradwalk.ops.linear.matmul import matmul as matmul
from gradwalk.ops.linear.matmul import mm as mm
from gradwalk.ops.linear.matmul import mv as mv
from gradwalk.ops.linear.matmul import outer as ger
from gradwalk.ops.linear.matmul import outer as outer
from gradwalk.ops.linear.matmul import tensordot as tensordot
from gradwalk.ops.linear.matmul import trace as trace
from gradwalk.ops.linear.matmul import vdot as vdot
from gradwalk.ops.linear.matrices import chain_matmul as chain_matmul
from gradwalk.ops.linear.matrices import det as det
from gradwalk.ops.linear.matrices import inverse as inverse
from gradwalk.ops.linear.matrices import logdet as logdet
from gradwalk.ops.linear.matrices import matrix_power as matrix_power
from gradwalk.ops.linear.matrices import slogdet as slogdet
from gradwalk.ops.linear.older_names import cholesky as cholesky
from gradwalk.ops.linear.older_names import lu as lu
from gradwalk.ops.linear.older_names import lu_solve as lu_solve
from gradwalk.ops.linear.older_names import pca_lowrank as pca_lowrank
from gradwalk.ops.linear.older_names import pinverse as pinverse
from gradwalk.ops.linear.older_names import qr as qr
from gradwalk.ops.linear.older_names import svd as svd
from gradwalk.ops.linear.older_names import svd_lowrank as svd_lowrank
from gradwalk.ops.linear.older_names import vander as vander
from gradwalk.ops.linear.reflections import geqrf as geqrf
from gradwalk.ops.linear.reflections import householder_product as orgqr
from gradwalk.ops.linear.reflections import ormqr as ormqr
from gradwalk.ops.linear.short_time import istft as istft
from gradwalk.ops.linear.short_time import stft as stft
from gradwalk.ops.linear.solving import cholesky_inverse as cholesky_inverse
from gradwalk.ops.linear.solving import cholesky_solve as cholesky_solve
from gradwalk.ops.linear.solving import triangular_solve as triangular_solve
from gradwalk.ops.linear.spectra import matrix_exp as matrix_exp
from gradwalk.ops.network.softmax import cross_entropy as cross_entropy
from gradwalk.ops.network.softmax import log_softmax as log_softmax
from gradwalk.ops.network.softmax import logsumexp as logsumexp
from gradwalk.ops.network.softmax import softmax as softmax
from gradwalk.ops.reduce.differences import gradient as gradient
from gradwalk.ops.reduce.frequencies import histogram as histogram
from gradwalk.ops.reduce.frequencies import histogramdd as histogramdd
from gradwalk.ops.reduce.frequencies import mode as mode
from gradwalk.ops.reduce.frequencies import unique_consecutive as unique_consecutive
from gradwalk.ops.reduce.norms import cdist as cdist
from gradwalk.ops.reduce.norms import norm as norm
from gradwalk.ops.reduce.norms import pdist as pdist
from gradwalk.ops.reduce.norms import renorm as renorm
from gradwalk.ops.reduce.reduction import all as all
from gradwalk.ops.reduce.reduction import amax as amax
from gradwalk.ops.reduce.reduction import amin as amin
from gradwalk.ops.reduce.reduction import any as any
from gradwalk.ops.reduce.reduction import argmax as argmax
from gradwalk.ops.reduce.reduction import argmin as argmin
from gradwalk.ops.reduce.reduction import max as max
from gradwalk.ops.reduce.reduction import mean as mean
from gradwalk.ops.reduce.reduction import min as min
from gradwalk.ops.reduce.reduction import prod as prod
from gradwalk.ops.reduce.reduction import std as std
from gradwalk.ops.reduce.reduction import sum as sum
from gradwalk.ops.reduce.reduction import var as var
from gradwalk.ops.reduce.scan import cummax as cummax
from gradwalk.ops.reduce.scan import cummin as cummin
from gradwalk.ops.reduce.scan import cumprod as cumprod
from gradwalk.ops.reduce.scan import cumsum as cumsum
from gradwalk.ops.reduce.scan import logcumsumexp as logcumsumexp
from gradwalk.ops.reduce.sorting import argsort as argsort
from gradwalk.ops.reduce.sorting import bucketize as bucketize
from gradwalk.ops.reduce.sorting import kthvalue as kthvalue
from gradwalk.ops.reduce.sorting import median as median
from gradwalk.ops.reduce.sorting import searchsorted as searchsorted
from gradwalk.ops.reduce.sorting import sort as sort
from gradwalk.ops.reduce.sorting import topk as topk
from gradwalk.ops.reduce.sorting import unique as unique
from gradwalk.ops.reduce.statistics import aminmax as aminmax
from gradwalk.ops.reduce.statistics import bincount as bincount
from gradwalk.ops.reduce.statistics import corrcoef as corrcoef
from gradwalk.ops.reduce.statistics import count_nonzero as count_nonzero
from gradwalk.ops.reduce.statistics import cov as cov
from gradwalk.ops.reduce.statistics import cumulative_trapezoid as cumulative_trapezoid
from gradwalk.ops.reduce.statistics import diff as diff
from gradwalk.ops.reduce.statistics import dist as dist
from gradwalk.ops.reduce.statistics import histc as histc
from gradwalk.ops.reduce.statistics import msort as msort
from gradwalk.ops.reduce.statistics import nanmean as nanmean
from gradwalk.ops.reduce.statistics import nanquantile as nanquantile
from gradwalk.ops.reduce.statistics import nansum as nansum
from gradwalk.ops.reduce.statistics import quantile as quantile
from gradwalk.ops.reduce.statistics import std_mean as std_mean
from gradwalk.ops.reduce.statistics import trapezoid as trapezoid
from gradwalk.ops.reduce.statistics import trapezoid as trapz
from gradwalk.ops.reduce.statistics import var_mean as var_mean
from gradwalk.ops.reduce.without_nan import nanmedian as nanmedian
from gradwalk.ops.shape.copies import _clone as clone
from gradwalk.ops.shape.copies import alias_copy as alias_copy
from gradwalk.ops.shape.copies import as_strided_copy as as_strided_copy
from gradwalk.ops.shape.copies import diagonal_copy as diagonal_copy
from gradwalk.ops.shape.copies import expand_copy as expand_copy
from gradwalk.ops.shape.copies import narrow_copy as narrow_copy
from gradwalk.ops.shape.copies import permute_copy as permute_copy
from gradwalk.ops.shape.copies import select_copy as select_copy
from gradwalk.ops.shape.copies import split_copy as split_copy
from gradwalk.ops.shape.copies import split_with_sizes_copy as split_with_sizes_copy
from gradwalk.ops.shape.copies import squeeze_copy as squeeze_copy
from gradwalk.ops.shape.copies import t_copy as t_copy
from gradwalk.ops.shape.copies import transpose_copy as transpose_copy
from gradwalk.ops.shape.copies import unbind_copy as unbind_copy
from gradwalk.ops.shape.copies import unfold_copy as unfold_copy
from gradwalk.ops.shape.copies import unsqueeze_copy as unsqueeze_copy
from gradwalk.ops.shape.copies import view_copy as view_copy
from gradwalk.ops.shape.joining import addr as addr
from gradwalk.ops.shape.joining import block_diag as block_diag
from gradwalk.ops.shape.joining import broadcast_tensors as broadcast_tensors
from gradwalk.ops.shape.joining import cartesian_prod as cartesian_prod
from gradwalk.ops.shape.joining import column_stack as column_stack
from gradwalk.ops.shape.joining import combinations as combinations
from gradwalk.ops.shape.joining import constant_pad_nd as constant_pad_nd
from gradwalk.ops.shape.joining import cross as cross
from gradwalk.ops.shape.joining import diagflat as diagflat
from gradwalk.ops.shape.joining import dsplit as dsplit
from gradwalk.ops.shape.joining import hsplit as hsplit
from gradwalk.ops.shape.joining import meshgrid as meshgrid
from gradwalk.ops.shape.joining import t as t
from gradwalk.ops.shape.joining import vsplit as vsplit
from gradwalk.ops.shape.rearranging import atleast_1d as atleast_1d
from gradwalk.ops.shape.rearranging import atleast_2d as atleast_2d
from gradwalk.ops.shape.rearranging import atleast_3d as atleast_3d
from gradwalk.ops.shape.rearranging import diag as diag
from gradwalk.ops.shape.rearranging import diag_embed as diag_embed
from gradwalk.ops.shape.rearranging import diagonal as diagonal
from gradwalk.ops.shape.rearranging import dstack as dstack
from gradwalk.ops.shape.rearranging import fliplr as fliplr
from gradwalk.ops.shape.rearranging import flipud as flipud
from gradwalk.ops.shape.rearranging import hstack as hstack
from gradwalk.ops.shape.rearranging import movedim as moveaxis
from gradwalk.ops.shape.rearranging import movedim as movedim
from gradwalk.ops.shape.rearranging import narrow as narrow
from gradwalk.ops.shape.rearranging import ravel as ravel
from gradwalk.ops.shape.rearranging import repeat_interleave as repeat_interleave
from gradwalk.ops.shape.rearranging import roll as roll
from gradwalk.ops.shape.rearranging import rot90 as rot90
from gradwalk.ops.shape.rearranging import select as select
from gradwalk.ops.shape.rearranging import swapaxes as swapaxes
from gradwalk.ops.shape.rearranging import tensor_split as tensor_split
from gradwalk.ops.shape.rearranging import tile as tile
from gradwalk.ops.shape.rearranging import tril as tril
from gradwalk.ops.shape.rearranging import triu as triu
from gradwalk.ops.shape.rearranging import unbind as unbind
from gradwalk.ops.shape.rearranging import unflatten as unflatten
from gradwalk.ops.shape.rearranging import vstack as row_stack
from gradwalk.ops.shape.rearranging import vstack as vstack
from gradwalk.ops.shape.reshaping import cat as cat
from gradwalk.ops.shape.reshaping import cat as concat
from gradwalk.ops.shape.reshaping import cat as concatenate
from gradwalk.ops.shape.reshaping import chunk as chunk
from gradwalk.ops.shape.reshaping import chunk as unsafe_chunk
from gradwalk.ops.shape.reshaping import expand as broadcast_to
from gradwalk.ops.shape.reshaping import expand as expand
from gradwalk.ops.shape.reshaping import flatten as flatten
from gradwalk.ops.shape.reshaping import flip_over as flip
from gradwalk.ops.shape.reshaping import pad as pad
from gradwalk.ops.shape.reshaping import permute_to as permute
from gradwalk.ops.shape.reshaping import reshape_to as reshape
from gradwalk.ops.shape.reshaping import split as split
from gradwalk.ops.shape.reshaping import split as unsafe_split
from gradwalk.ops.shape.reshaping import split_with_sizes as split_with_sizes
from gradwalk.ops.shape.reshaping import squeeze as squeeze
from gradwalk.ops.shape.reshaping import stack as stack
from gradwalk.ops.shape.reshaping import transpose as swapdims
from gradwalk.ops.shape.reshaping import transpose as transpose
from gradwalk.ops.shape.reshaping import unsqueeze as unsqueeze
from gradwalk.ops.shape.strides import as_strided as as_strided
from gradwalk.ops.shape.strides import as_strided_scatter as as_strided_scatter

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "adjoint",
    "alias_copy",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "angle",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_strided",
    "as_strided_copy",
    "as_strided_scatter",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "baddbmm",
    "bincount",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block_diag",
    "bmm",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "cartesian_prod",
    "cat",
    "cdist",
    "ceil",
    "chain_matmul",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "clone",
    "column_stack",
    "combinations",
    "complex",
    "concat",
    "concatenate",
    "conj",
    "conj_physical",
    "constant_pad_nd",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "deg2rad",
    "det",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_copy",
    "diagonal_scatter",
    "diff",
    "digamma",
    "dist",
    "div",
    "divide",
    "dot",
    "dsplit",
    "dstack",
    "einsum",
    "eq",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expand",
    "expand_copy",
    "expm1",
    "fill",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "frexp",
    "gather",
    "gcd",
    "ge",
    "geqrf",
    "ger",
    "gradient",
    "greater",
    "greater_equal",
    "gt",
    "heaviside",
    "histc",
    "histogram",
    "histogramdd",
    "hsplit",
    "hstack",
    "hypot",
    "i0",
    "igamma",
    "igammac",
    "imag",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "inner",
    "inverse",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "istft",
    "kron",
    "kthvalue",
    "lcm",
    "ldexp",
    "le",
    "leaky_relu",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "linear",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logsumexp",
    "lt",
    "lu",
    "lu_solve",
    "lu_unpack",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_exp",
    "matrix_power",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "msort",
    "mul",
    "multiply",
    "mv",
    "mvlgamma",
    "nan_to_num",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "narrow_copy",
    "ne",
    "neg",
    "negative",
    "nextafter",
    "nonzero",
    "nonzero_static",
    "norm",
    "not_equal",
    "numel",
    "orgqr",
    "ormqr",
    "outer",
    "pad",
    "pca_lowrank",
    "pdist",
    "permute",
    "permute_copy",
    "pinverse",
    "polar",
    "polygamma",
    "positive",
    "pow",
    "prod",
    "put",
    "qr",
    "quantile",
    "rad2deg",
    "ravel",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "renorm",
    "repeat_interleave",
    "reshape",
    "resolve_conj",
    "resolve_neg",
    "roll",
    "rot90",
    "round",
    "row_stack",
    "rsqrt",
    "rsub",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "segment_reduce",
    "select",
    "select_copy",
    "select_scatter",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "slice_scatter",
    "slogdet",
    "softmax",
    "softplus",
    "sort",
    "split",
    "split_copy",
    "split_with_sizes",
    "split_with_sizes_copy",
    "sqrt",
    "square",
    "squeeze",
    "squeeze_copy",
    "stack",
    "std",
    "std_mean",
    "stft",
    "sub",
    "subtract",
    "sum",
    "svd",
    "svd_lowrank",
    "swapaxes",
    "swapdims",
    "t",
    "t_copy",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tensor_split",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "transpose",
    "transpose_copy",
    "trapezoid",
    "trapz",
    "triangular_solve",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "unbind",
    "unbind_copy",
    "unflatten",
    "unfold_copy",
    "unique",
    "unique_consecutive",
    "unravel_index",
    "unsafe_chunk",
    "unsafe_split",
    "unsqueeze",
    "unsqueeze_copy",
    "vander",
    "var",
    "var_mean",
    "vdot",
    "view_as_complex",
    "view_as_real",
    "view_copy",
    "vsplit",
    "vstack",
    "where",
    "xlogy",
]
