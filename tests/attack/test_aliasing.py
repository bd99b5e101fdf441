"""Does a result share memory with its operands exactly where PyTorch's does?

If it does not, a later write in place changes one tensor too many, or one too few. Every call runs
in both libraries, over PyTorch's own samples (`op_db`) and over the calls below, which are chosen
for the cases in which there is nothing to do. A result may *be* the operand, share its memory, or
lie apart. There is no exception.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.ops import test_pytorch_samples as samples

pytestmark = pytest.mark.slow

MOST = 10  # samples of one function and dtype


# -- the relation of two tensors -------------------------------------------------------------------


def memory_of(tensor: Any) -> Any:
    """Its memory as an array. NumPy has no name for PyTorch's bfloat16 and no sign that waits."""
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.resolve_conj().resolve_neg()  # gradwalk computes them at once
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.view(torch.int16)
    return tensor.numpy()


def relation(output: Any, operand: Any) -> str:
    """Whether an output is an operand, shares its memory, or lies apart; "" if it is empty."""
    if output is operand:
        return "is"
    if not output.numel() or not operand.numel():
        return ""
    one, other = (memory_of(t.detach()) for t in (output, operand))
    return "shares" if np.may_share_memory(one, other) else "apart"


def tensors_in(thing: Any) -> list[Any]:
    if isinstance(thing, (gw.Tensor, torch.Tensor)):
        return [thing]
    if isinstance(thing, dict):
        thing = list(thing.values())
    if isinstance(thing, (list, tuple)):
        return [tensor for part in thing for tensor in tensors_in(part)]
    return []


def relations(found: Any, operands: Any) -> list[str]:
    return [relation(o, x) for o in tensors_in(found) for x in tensors_in(operands)]


# -- calls in which there may be nothing to do -----------------------------------------------------

# Of x, a float tensor of any shape and layout; `m` is the library, `F` its nn.functional.
CALLS = """
    x.contiguous() x.clone() x.to(x.dtype) x.to(x) x.to(m.float64) x.to(x.dtype,copy=True)
    x.type(x.dtype) x.type_as(x) x.double() x.float() x.long() x.bool() x.int() x.cpu() x.detach()
    x.data x.requires_grad_() x.detach().requires_grad_() +x -x abs(x) x.positive() m.positive(x)
    x.reshape(x.shape) x.reshape(-1) x.reshape(1,-1) x.reshape(*x.shape,1) x.view(x.shape)
    x.view(-1) x.view_as(x) x.reshape_as(x) x.expand(x.shape) x.expand_as(x) x.expand(1,*x.shape)
    x.expand(2,*x.shape) x.broadcast_to(x.shape) m.broadcast_to(x,x.shape)
    m.broadcast_to(x,(2,*x.shape)) m.broadcast_tensors(x,x)
    m.broadcast_tensors(x,m.zeros(2,1,1,1,dtype=x.dtype)) x.squeeze() x.squeeze(0) x.squeeze(-1)
    x.squeeze((0,)) x.squeeze(()) x.unsqueeze(0) x.unsqueeze(-1) x.flatten() x.flatten(0)
    x.flatten(0,0) x.flatten(-1) x.flatten(-1,-1) x.flatten(0,1) x.ravel() m.ravel(x) m.flatten(x)
    x.unflatten(0,(-1,)) x.unflatten(0,(1,-1)) x.unflatten(-1,(-1,1)) x.transpose(0,0)
    x.transpose(0,-1) x.t() m.t(x) x.T x.mT x.swapaxes(0,0) x.swapdims(0,-1)
    x.permute(*range(x.ndim)) x.permute(*range(x.ndim)[::-1]) m.permute(x,tuple(range(x.ndim)))
    x.movedim(0,0) x.movedim(0,-1) m.moveaxis(x,0,0) x.narrow(0,0,x.shape[0]) x.narrow(-1,0,1)
    x.select(0,0) x.select(-1,-1) x[...] x[:] x[()] x[None] x[0] x[-1] x[0:1] x[::1] x[::2] x[...,0]
    x[...,:] x[[0]] x[[0,0]] x[True] x[m.tensor([0])] x[m.tensor(0)] x[x>-9] x[m.tensor(True)] x[0:]
    x[:,None] x[...,None] x.flip(()) x.flip(0) x.flip(-1) m.flip(x,[0]) x.fliplr() x.flipud()
    x.roll(0) x.roll(0,0) x.roll(1) x.roll(x.shape[0],0) x.rot90(0) x.rot90(4) x.rot90(1) x.rot90(2)
    m.rot90(x,0,(0,1)) x.tile(1) x.tile(()) x.tile((1,1)) x.tile((2,)) m.tile(x,(1,))
    x.repeat([1]*x.ndim) x.repeat([1]*(x.ndim+1)) x.repeat([2]+[1]*x.ndim) x.repeat_interleave(1)
    x.repeat_interleave(1,0) x.repeat_interleave(2) x.repeat_interleave(1,-1)
    x.repeat_interleave(2,-1) m.repeat_interleave(x,m.tensor([1]*x.shape[0]),0) m.cat([x])
    m.cat([x],-1) m.cat([x,x]) m.cat((x,),0) m.concat([x]) m.stack([x]) m.stack([x],-1)
    m.hstack([x]) m.vstack([x]) m.dstack([x]) m.column_stack([x]) m.row_stack([x]) m.block_diag(x)
    m.atleast_1d(x) m.atleast_2d(x) m.atleast_3d(x) m.atleast_1d([x,x]) m.cartesian_prod(x)
    m.combinations(x,1) m.meshgrid(x,indexing='ij') m.meshgrid(x,x,indexing='xy') x.split(1)
    x.split(9) x.split([x.shape[0]]) x.split(1,-1) x.chunk(1) x.chunk(2) x.chunk(2,-1) x.unbind()
    x.unbind(-1) x.tensor_split(1) x.tensor_split(2) x.tensor_split((1,),-1) x.hsplit(1) x.vsplit(1)
    x.dsplit(1) m.split(x,9) list(x) m.split(x,[1],0) x.diag() x.diagonal() x.diagonal(1)
    m.diagonal(x,0,-1,-2) x.diag_embed() x.diagflat() m.diag(x) m.linalg.diagonal(x) x.tril()
    x.triu() x.tril(9) x.triu(-9) m.tril(x,9) x.trace() x.unfold(0,1,1) x.unfold(-1,1,1)
    x.unfold(0,x.shape[0],1) x.unfold(-1,1,2) x.sum(()) x.sum(0) x.sum(-1,keepdim=True) x.sum()
    x.mean(0) x.mean(()) x.mean() x.prod(0) x.prod() x.amax(0) x.amin(-1) x.amax(()) x.max() x.min()
    x.max(0) x.min(-1) x.median() x.median(0) x.cumsum(0) x.cumprod(0) x.cummax(0) x.cummin(-1)
    x.logcumsumexp(0) x.logsumexp(0) x.norm() x.norm(dim=0) x.std(0,unbiased=False)
    x.var(0,unbiased=False) x.nansum() x.nansum(0) x.nanmean(0) x.sort() x.sort(0) x.argsort()
    x.msort() x.topk(1) x.topk(x.shape[-1]) x.kthvalue(1) x.unique() x.unique(dim=0) x.quantile(0.5)
    x.diff() x.diff(0) x.diff(n=0) x.clamp(min=-9) x.clamp(-9,9) x.clip(max=9) x.clamp_min(-9)
    x.clamp_max(9) x.where(x>-9,x) m.where(x>-9,x,x) m.where(m.tensor(True),x,x)
    x.masked_fill(x>9,0) x.masked_select(x>-9) x.masked_fill(m.tensor(False),0.0) x.nan_to_num()
    x.round() x.floor() x.ceil() x.trunc() x.fix() x.round(decimals=0) x.frac() x.sign() x.abs()
    x.absolute() x.neg() x.negative() x.relu() x.index_select(0,m.tensor([0]))
    x.gather(0,m.zeros(x.shape,dtype=m.int64)) x.take(m.tensor([0]))
    x.take_along_dim(m.zeros(x.shape,dtype=m.int64),0) x.index_fill(0,m.tensor([0]),0.5)
    x.index_add(0,m.tensor([0]),x[:1]) x.index_copy(0,m.tensor([0]),x[:1])
    x.scatter(0,m.zeros(x.shape,dtype=m.int64),0.5)
    x.scatter_add(0,m.zeros(x.shape,dtype=m.int64),x) x.add(0) x+0 x-0 x*1 x/1 x//1 x**1 x.pow(1)
    x.pow(1.0) m.pow(x,1) x.mul(1) x.div(1) x.sub(0) x.pow(m.tensor(1.0)) x.float_power(1)
    x.lerp(x,0) x.lerp(x,1) x.addcmul(x,x,value=0) x.addcdiv(x,x,value=0) x.maximum(x) x.minimum(x)
    x.fmax(x) x.fmin(x) x.hypot(x) x.copysign(x) x.logaddexp(x) x.xlogy(x) x.heaviside(x) x@x
    x.matmul(x.mT) m.matmul(x,x.mT) x.mm(x.mT) x.bmm(x.mT) x.dot(x) x.vdot(x) x.inner(x) x.outer(x)
    x.matrix_power(0) x.matrix_power(1) x.matrix_power(2) m.linalg.matrix_power(x,1)
    m.linalg.multi_dot([x,x.mT]) m.chain_matmul(x,x.mT) m.chain_matmul(x) x.to_dense()
    m.segment_reduce(x,'sum',lengths=m.tensor([x.shape[0]]))
    m.einsum('...->...',x) m.einsum('i->i',x) m.einsum('ij->ij',x)
    m.einsum('ij->ji',x) m.einsum('i,i->i',x,x) m.einsum('ii->i',x) m.einsum('ij->i',x)
    m.einsum('ij,jk->ik',x,x.mT) m.einsum('...i->...',x) m.tensordot(x,x,0) m.kron(x,x)
    m.addmm(x,x,x.mT,beta=1,alpha=0) m.trapezoid(x) m.cov(x) m.corrcoef(x) m.cross(x,x) m.cdist(x,x)
    m.dist(x,x) m.linalg.inv(x) m.linalg.norm(x) m.linalg.vector_norm(x,dim=())
    m.linalg.vector_norm(x) m.linalg.matrix_norm(x) m.linalg.det(x) m.linalg.qr(x) m.linalg.svd(x)
    m.select_copy(x,0,0) m.split_copy(x,1) m.nn.functional.upsample(x[None,None],scale_factor=1)
    m.special.gammainc(x.abs(),x.abs()) m.special.gammaincc(x.abs(),x.abs())
    m.special.multigammaln(x.abs()+9,2) m.linalg.eigh(x)
    m.conv_tbc(x,m.ones(1,x.shape[-1],2,dtype=x.dtype),m.zeros(2,dtype=x.dtype))
    m.linalg.cholesky(x@x.mT+m.eye(x.shape[-1])) m.linalg.solve(x,x)
    m.linalg.pinv(x) m.linalg.cross(x,x) m.linalg.vecdot(x,x) F.relu(x) F.relu(x,inplace=True)
    F.relu6(x) F.elu(x) F.leaky_relu(x) F.gelu(x) F.hardtanh(x,-9,9) F.threshold(x,-9,0)
    F.dropout(x,0.0) F.dropout(x,0.5,False) F.dropout(x,0.0,True)
    F.dropout(x,0.5,training=False,inplace=True) F.dropout(x,0.0,True,True) F.dropout1d(x,0.5,False)
    F.dropout2d(x,0.5,False) F.dropout3d(x,0.5,False) F.dropout1d(x,0.0) F.dropout2d(x,0.0)
    F.dropout3d(x,0.0) F.alpha_dropout(x,0.0) F.alpha_dropout(x,0.5,False) F.pad(x,(0,0))
    F.pad(x,()) F.pad(x,(0,0,0,0)) F.pad(x,(0,0),value=1.0) F.pad(x,(0,0),mode='reflect')
    F.pad(x,(0,0),mode='replicate') F.pad(x,(0,0),mode='circular') F.pad(x,(-1,0))
    F.pad(x,(-1,0),mode='reflect') F.pad(x,(-1,0),mode='replicate') F.pad(x,(-1,0),mode='circular')
    F.pad(x,(0,0,0,0),mode='replicate') F.pad(x,(0,0,0,0),mode='circular')
    F.pad(x,(-1,-1,0,0),mode='reflect') F.pad(x,(1,-1)) F.softmax(x,0) F.log_softmax(x,-1)
    F.softplus(x) F.normalize(x,dim=0) F.normalize(x,dim=-1) F.one_hot(x.long().abs())
    F.layer_norm(x,x.shape[-1:]) F.rms_norm(x,x.shape[-1:]) F.glu(x) F.softmin(x,0) F.softsign(x)
    F.tanhshrink(x) F.hardshrink(x,0.0) F.softshrink(x,0.0) F.celu(x) F.selu(x) F.silu(x) F.mish(x)
    F.hardswish(x) F.hardsigmoid(x) F.interpolate(x,scale_factor=1)
    F.interpolate(x,size=x.shape[2:]) F.interpolate(x,scale_factor=1.0,mode='linear')
    F.interpolate(x,scale_factor=1,mode='bilinear')
    F.interpolate(x,scale_factor=1,mode='nearest-exact') F.interpolate(x,scale_factor=1,mode='area')
    F.interpolate(x,scale_factor=1,mode='bicubic') F.interpolate(x,scale_factor=2) F.avg_pool1d(x,1)
    F.avg_pool2d(x,1) F.max_pool1d(x,1) F.max_pool2d(x,1)
    F.adaptive_avg_pool1d(x,x.shape[-1]) F.adaptive_avg_pool2d(x,x.shape[-2:])
    F.adaptive_max_pool1d(x,x.shape[-1]) F.adaptive_max_pool2d(x,x.shape[-2:])
    F.adaptive_avg_pool1d(x,1) F.adaptive_avg_pool2d(x,1)
    F.max_pool2d(x,1,return_indices=True) F.pixel_shuffle(x,1) F.pixel_unshuffle(x,1)
    F.channel_shuffle(x,1) F.channel_shuffle(x,2) F.local_response_norm(x,1) F.linear(x,x)
    F.mse_loss(x,x,reduction='none') F.l1_loss(x,x,reduction='none')
    F.smooth_l1_loss(x,x,reduction='none') F.huber_loss(x,x,reduction='none')
    F.cosine_similarity(x,x,0) F.pairwise_distance(x,x) F.scaled_dot_product_attention(x,x,x)
    F.batch_norm(x,None,None,training=True) F.instance_norm(x) F.group_norm(x,1)
    F.embedding(x.long().abs()*0,x) F.prelu(x,m.ones(1,dtype=x.dtype)) F.logsigmoid(x)
    F.gumbel_softmax(x) F.conv1d(x,m.ones(x.shape[1],x.shape[1],1,dtype=x.dtype))
    F.bilinear(x,x,m.ones(1,x.shape[-1],x.shape[-1],dtype=x.dtype)) m.nn.Identity()(x)
    m.nn.Identity(3,a=1)(x) m.nn.Flatten()(x) m.nn.Flatten(0)(x) m.nn.Flatten(0,0)(x)
    m.nn.Unflatten(0,(-1,))(x) m.nn.Unflatten(-1,(-1,1))(x) m.nn.Dropout(0.0)(x)
    m.nn.Dropout(0.5).eval()(x) m.nn.Dropout(0.5,inplace=True).eval()(x)
    m.nn.Dropout1d(0.5).eval()(x) m.nn.Dropout2d(0.5).eval()(x) m.nn.Dropout3d(0.5).eval()(x)
    m.nn.AlphaDropout(0.5).eval()(x) m.nn.Sequential()(x) m.nn.Sequential(m.nn.Identity())(x)
    m.nn.ReLU()(x) m.nn.ReLU(inplace=True)(x) m.nn.ZeroPad1d(0)(x) m.nn.ZeroPad2d(0)(x)
    m.nn.ConstantPad1d(0,0.0)(x) m.nn.ReflectionPad1d(0)(x) m.nn.ReplicationPad1d(0)(x)
    m.nn.CircularPad1d(0)(x) m.nn.ReflectionPad2d(0)(x) m.nn.ReplicationPad2d(0)(x)
    m.nn.Upsample(scale_factor=1)(x) m.nn.AvgPool1d(1)(x) m.nn.AvgPool2d(1)(x) m.nn.MaxPool1d(1)(x)
    m.nn.MaxPool2d(1)(x) m.nn.AdaptiveAvgPool1d(1)(x) m.nn.PixelShuffle(1)(x)
    m.nn.PixelUnshuffle(1)(x) m.nn.ChannelShuffle(1)(x) m.nn.Softmax(0)(x)
    m.nn.LayerNorm(x.shape[-1]).double()(x) m.nn.Tanh()(x) m.nn.Hardtanh(-9,9)(x)
    m.nn.Threshold(-9,0)(x) m.nn.Parameter(x) m.nn.Parameter(x.detach())
    m.nn.utils.parameters_to_vector([x]) m.nn.utils.parameters_to_vector([x,x])
    m.nn.utils.rnn.pad_sequence([x]) m.nn.utils.rnn.pad_sequence([x],True) m.as_tensor(x)
    m.asarray(x) m.tensor(x.detach()) m.zeros_like(x) m.ones_like(x) m.empty_like(x)
    m.full_like(x,1.0) x.new_zeros(x.shape) m.clone(x) m.from_numpy(x.detach().numpy())
    m.as_tensor(x.detach().numpy()) m.tensor(x.detach().numpy()) m.asarray(x,copy=True)
    m.asarray(x.detach().numpy()) x.add_(0) x.mul_(1) x.copy_(x) x.fill_(0.5) x.zero_()
    x.clone().reshape(-1,1).fill_diagonal_(0.5)
    x.clamp_(-9,9) x.relu_() x.contiguous().view(-1) x.squeeze().unsqueeze(0) m.special.expit(x)
    m.special.xlogy(x,x) m.sigmoid(x) m.exp(x*0) m.square(x) m.sqrt(x.abs()) m.logit(x*0+0.5)
    m.deg2rad(x) m.erf(x) m.sinc(x) x.isnan() x.logical_not() x.eq(x) x.bitwise_not() x&x x|x ~x
    x.any(0) x.all(-1) x.argmax(0) x.nonzero() x.count_nonzero(0) x.bincount() x.histc() x.item()
    m.searchsorted(x,x) m.bucketize(x,x) m.rad2deg(x) m.cumulative_trapezoid(x) m.swapaxes(x,0,0)
    m.unsqueeze(x,0) m.squeeze(x) m.autograd.grad((x*x).sum(),x)
    m.utils.checkpoint.checkpoint(m.nn.Identity(),x,use_reentrant=False)
    F.bilinear(x,x,m.ones(1,x.shape[-1],x.shape[-1],dtype=x.dtype)) m.nn.AdaptiveAvgPool2d(1)(x)
    m.nn.AdaptiveAvgPool2d(x.shape[-2:])(x) m.nn.AdaptiveMaxPool1d(x.shape[-1])(x)
    m.nn.AdaptiveMaxPool2d(1)(x) m.nn.BatchNorm1d(x.shape[1]).double().eval()(x)
    m.nn.BatchNorm2d(x.shape[1]).double()(x) m.nn.CELU()(x) m.nn.ELU()(x) m.nn.GELU()(x)
    m.nn.GLU()(x) m.nn.CircularPad2d(0)(x) m.nn.CircularPad3d(0)(x) m.nn.ConstantPad2d(0,0.0)(x)
    m.nn.ConstantPad3d(0,0.0)(x) m.nn.ReflectionPad3d(0)(x) m.nn.ReplicationPad3d(0)(x)
    m.nn.ZeroPad3d(0)(x) m.nn.GroupNorm(1,x.shape[1]).double()(x)
    m.nn.InstanceNorm1d(x.shape[1]).double()(x) m.nn.Hardshrink(0.0)(x) m.nn.Hardsigmoid()(x)
    m.nn.Hardswish()(x) m.nn.LeakyReLU(1.0)(x) m.nn.LocalResponseNorm(1)(x) m.nn.LogSigmoid()(x)
    m.nn.LogSoftmax(0)(x) m.nn.Mish()(x) m.nn.PReLU(init=1.0).double()(x) m.nn.ReLU6()(x)
    m.nn.RMSNorm(x.shape[-1]).double()(x) m.nn.SELU()(x) m.nn.SiLU()(x) m.nn.Sigmoid()(x)
    m.nn.Softmax2d()(x) m.nn.Softmin(0)(x) m.nn.Softplus()(x) m.nn.Softshrink(0.0)(x)
    m.nn.Softsign()(x) m.nn.Tanhshrink()(x) m.nn.UpsamplingNearest2d(scale_factor=1)(x)
    m.nn.UpsamplingBilinear2d(scale_factor=1)(x) m.nn.L1Loss(reduction='none')(x,x)
    m.nn.MSELoss(reduction='none')(x,x) m.nn.Linear(x.shape[-1],2).double()(x)
    m.nn.ModuleList([m.nn.Identity()])[0](x) m.nn.CosineSimilarity(0)(x,x)
    m.nn.PairwiseDistance()(x,x) m.nn.HuberLoss(reduction='none')(x,x)
    m.nn.SmoothL1Loss(reduction='none')(x,x) x.new_tensor(x.tolist()) m.special.psi(x)
    m.special.gammaln(x) m.rand(x.shape) m.from_dlpack(x.detach()) x.clone().detach_() x.clip_(-9,9)
    m.vmap(lambda*rows:rows[0])(x) m.vmap(lambda*rows:rows[0],1,1)(x)
    m.vmap(lambda*rows:rows[0],1,0)(x) m.vmap(lambda*rows:rows[0][0])(x)
    m.vmap(lambda*rows:rows[0]+0)(x) m.DoubleTensor(x) m.DoubleTensor(x.tolist())
    m.DoubleTensor(x.detach().numpy()) m.LongTensor(x.long()) m.LongTensor(x)
    m.vmap(lambda*rows:rows[0].mul_(1))(x) m.BoolTensor(x.bool()) m.BFloat16Tensor(x.tolist())
    m.ByteTensor(x.tolist()) m.CharTensor(x.tolist()) m.FloatTensor(x.float())
    m.FloatTensor(x.tolist()) m.HalfTensor(x.tolist()) m.IntTensor(x.int())
    m.asarray(x,requires_grad=False) m.asarray(x,requires_grad=True) m.asarray(x,dtype=m.float32)
    F.lp_pool1d(x,1,1) F.lp_pool2d(x,1,1) F.lp_pool3d(x,1,1) F.fold(x,x.shape[-1:]*2,1)
    F.fold(x.reshape(1,-1,1),1,1) F.affine_grid(x,(2,1,1,1),False) m.ShortTensor(x.tolist())
    x.absolute_() x.multiply_(1) x.subtract_(0) x.divide_(1) x.fix_() x.negative_()
"""

LAYOUTS: dict[str, str] = {  # operands
    "()": "m.tensor(0.5,dtype=m.float64)",
    "(1,)": "m.tensor([0.5],dtype=m.float64)",
    "(3,)": "m.arange(3,dtype=m.float64)",
    "(2, 3)": "m.arange(6,dtype=m.float64).reshape(2,3).clone()",
    "(3, 3)": "m.arange(9,dtype=m.float64).reshape(3,3).clone()",
    "(1, 1)": "m.ones(1,1,dtype=m.float64)",
    "(3, 1)": "m.ones(3,1,dtype=m.float64)",
    "(1, 3)": "m.ones(1,3,dtype=m.float64)",
    "(2, 1, 3)": "m.ones(2,1,3,dtype=m.float64)",
    "(2, 2, 3)": "m.ones(2,2,3,dtype=m.float64)",
    "(1, 1, 2, 3)": "m.ones(1,1,2,3,dtype=m.float64)",
    "(2, 4, 2, 2)": "m.ones(2,4,2,2,dtype=m.float64)",
    "(1, 1, 2, 2, 2)": "m.ones(1,1,2,2,2,dtype=m.float64)",
    "turned (3, 2)": "m.arange(6,dtype=m.float64).reshape(2,3).clone().T",
    "every second": "m.arange(8,dtype=m.float64)[::2]",
    "columns": "m.ones(3,4,dtype=m.float64)[:,1:3]",
    "expanded (2, 3)": "m.arange(3,dtype=m.float64).expand(2,3)",
    "expanded (1, 3)": "m.arange(3,dtype=m.float64).expand(1,3)",
    "integers": "m.arange(6).reshape(2,3).clone()",
    "integers (3,)": "m.arange(3)",
    "booleans": "m.ones(2,3,dtype=m.bool)",
}


def tried(call: str, layout: str, needs: bool) -> tuple[list[str], list[str]] | None:
    """How the results relate to x here and in PyTorch; None if one of them refuses the call."""
    found = []
    for m in (torch, gw):
        names: dict[str, Any] = {"m": m, "F": m.nn.functional}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                x = eval(LAYOUTS[layout], names)
                names["x"] = x.requires_grad_() if needs else x
                found.append(relations(eval(call, names), names["x"]))
            except Exception:
                return None
    return found[1], found[0]


def differs(ours: list[str], theirs: list[str]) -> bool:
    if len(ours) != len(theirs):
        return True
    return any(one != other for one, other in zip(ours, theirs, strict=True) if one and other)


@pytest.mark.parametrize("part", range(8))
def test_calls_in_which_there_may_be_nothing_to_do(part: int) -> None:
    wrong, idle = [], []
    for call in CALLS.split()[part::8]:
        tries = [
            (layout, needs, tried(call, layout, needs)) for layout in LAYOUTS for needs in (0, 1)
        ]
        if all(found is None for *_, found in tries):
            idle.append(call)
        wrong += [
            f"{call} of {layout}{' that needs a gradient' * needs}: {found[0]}, not {found[1]}"
            for layout, needs, found in tries
            if found is not None and differs(*found)
        ]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)
    assert not idle, "never computed in both libraries: " + " ".join(idle)


@pytest.mark.parametrize("taken", [
    "y.detach()", "y[0]", "y.permute(1, 0, 2, 3)", "y.data", "y.T", "y.contiguous()",
    "m.nn.Parameter(y)", "m.nn.Buffer(y)", "m.asarray(y)", "m.FloatTensor(y)", "m.Tensor(y)",
    "m.from_numpy(y.numpy())", "m.autograd.Variable(y)", "y.requires_grad_().detach()",
    "setattr(z := m.ones(2), 'data', y) or z", "m.vmap(lambda row: row)(y)", "m.Tensor(y.numpy())",
])  # fmt: skip
def test_view_does_not_part_a_tensor_from_its_views(taken: str) -> None:
    """A convolution leaves its result in another order, and sharing its memory ends that: before
    and after another view, a write to the one is seen in the other, in both libraries.
    """
    for m in (torch, gw):
        y = m.nn.functional.conv2d(m.ones(2, 3, 5, 5), m.ones(4, 3, 3, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = eval(taken, {"y": y, "m": m})
        flat = y.view(-1)
        with m.no_grad():
            for target, factor in ((y, 2), (flat, 3), (other, 5)):
                target.mul_(factor)
        taken_from_y = {27.0 * 2 * 3 * 5}
        assert set(other.flatten().tolist()) == taken_from_y, m.__name__
        assert set(y[0].flatten().tolist()) == set(flat[:36].tolist()) == taken_from_y, m.__name__


# -- PyTorch's samples -----------------------------------------------------------------------------


def sampled(description: Any, dtype: Any) -> Iterator[tuple[str, list[str], list[str]]]:
    """Calls of PyTorch's samples: what was called, and the relations here and in PyTorch."""
    drawn = samples.quietly(samples.drawn, description, dtype, False)
    for sample in drawn[:: -(-len(drawn) // MOST) or 1]:
        for ours, theirs, kind in samples.variants(description):
            given = [sample.input, list(sample.args), sample.kwargs]
            try:
                mine, own = samples.translated(given, []), samples.as_leaves(given, [])
                if kind == "in place":
                    mine[0], own[0] = mine[0].clone(), own[0].clone()
                expected = samples.quietly(theirs, own[0], *own[1], **own[2])
                found = samples.quietly(ours, mine[0], *mine[1], **mine[2])
            except Exception:  # refused; other tests compare that
                continue
            if getattr(expected, "layout", torch.strided) != torch.strided:
                continue  # a sparse result has no memory of that kind
            what = f"{samples.full_name(description)}, {kind}: {sample.summary()}"
            yield what, relations(found, mine), relations(expected, own)


@pytest.mark.parametrize("part", range(8))
def test_samples_of_pytorch(part: int) -> None:
    wrong = []
    for name in samples.NAMES[part::8]:
        for description in samples.database()[name]:
            for dtype in (torch.float64, torch.bool):
                if description.supports_dtype(dtype, "cpu"):
                    for what, ours, theirs in sampled(description, dtype):
                        if differs(ours, theirs):
                            wrong.append(f"{what}\n    {ours}, not {theirs}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:10])


# Functions without a tensor as an operand or a result, and modules whose results are products.
LEFT_OUT = """
    Generator Size Tensor Value compile device enable_grad finfo get_default_dtype get_num_threads
    get_rng_state iinfo inference_mode is_complex is_floating_point is_grad_enabled
    is_inference_mode_enabled is_nonzero is_same_size is_tensor load manual_seed no_grad numel
    promote_types randperm save set_default_dtype set_grad_enabled set_num_threads set_rng_state
    backward data_ptr element_size get_device is_contiguous is_signed ndimension nelement random_
    register_hook retain_grad stride tolist LinAlgError bernoulli_ cuda autocast get_autocast_dtype
    get_default_device Event Stream UntypedStorage get_float32_matmul_precision is_autocast_enabled
    set_default_device set_float32_matmul_precision is_conj bartlett_window blackman_window
    hamming_window hann_window kaiser_window frombuffer sparse_coo_tensor spmm
    are_deterministic_algorithms_enabled binomial can_cast initial_seed poisson result_type seed
    set_printoptions use_deterministic_algorithms register_post_accumulate_grad_hook apply_
    dim_order is_pinned is_set_to map_ map2_ new pin_memory resize_as_ set_ storage storage_offset
    untyped_storage as_strided_ get_num_interop_threads layout memory_format set_default_tensor_type
    set_num_interop_threads typename is_shared record_stream share_memory_ max_pool1d_with_indices
    max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool1d_with_indices
    adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices
    fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices GradScaler
    OutOfMemoryError get_autocast_cpu_dtype get_autocast_gpu_dtype get_deterministic_debug_mode
    is_autocast_cpu_enabled is_deterministic_algorithms_warn_only_enabled
    set_deterministic_debug_mode set_flush_denormal to_dlpack sparse_csr_tensor to_sparse_coo
    to_sparse_csr sparse_mask Future SymBool SymFloat SymInt is_inference
"""


def test_every_function_is_called() -> None:
    """Every function and method that both libraries have is sampled or called above."""
    called = set(re.findall(r"\w+", CALLS + LEFT_OUT))
    for name, found in samples.database().items():
        for description in found:
            called |= {name.split(".")[-1], getattr(description.get_inplace(), "__name__", "")}
            called |= {alias.name for alias in description.aliases}
    missing = []
    for ours, theirs in (
        (gw, torch), (gw.Tensor, torch.Tensor), (gw.nn.functional, torch.nn.functional),
        (gw.linalg, torch.linalg), (gw.special, torch.special),
    ):  # fmt: skip
        for name in dir(ours):
            both = hasattr(theirs, name) and callable(getattr(ours, name))
            plain = name.removesuffix("_")  # of an alias, the in-place form
            if both and name[0] != "_" and not {name, plain} & called:
                missing.append(f"{ours.__name__}.{name}")
    assert missing == []
