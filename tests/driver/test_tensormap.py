import pytest

from oxinp._driver import errors
from oxinp._driver.tensormap import ELEMENT_TYPES, TensorMap

PTR = 0x7F00_0000_0100


def make(context, element_type="f32", ptr=PTR, shape=(100, 200), strides=(1024,), box=(8, 32), **options):
    return TensorMap(context, element_type, ptr, shape, strides, box, **options)


def test_axes_are_turned_around_for_the_driver(opened):
    context, fake = opened
    tensor_map = TensorMap(
        context, "bf16", PTR, (10, 100, 200), (65536, 512), (2, 8, 64), steps=(1, 2, 1), swizzle_nbytes=128
    )
    address, kind, ptr, shape, strides, box, steps, modes = fake.tensor_map
    assert address % 64 == 0
    assert (kind, ptr) == (9, PTR)
    assert (shape, strides, box, steps) == ([200, 100, 10], [512, 65536], [64, 8, 2], [1, 2, 1])
    assert modes == (0, 3, 2, 0)
    assert tensor_map.value == bytes(range(128))


def test_one_axis(opened):
    context, fake = opened
    make(context, "u8", shape=(1 << 32,), strides=(), box=(256,))
    assert fake.tensor_map[3:6] == ([1 << 32], [], [256])


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_element_types(name, opened):
    context, fake = opened
    make(context, name, box=(8, 16))
    assert fake.tensor_map[1] == ELEMENT_TYPES[name].number


@pytest.mark.parametrize(
    ("options", "modes"),
    [
        ({"swizzle_nbytes": 128, "l2_promotion_nbytes": 0}, (0, 3, 0, 0)),
        ({"l2_promotion_nbytes": 256, "fill": "nan"}, (0, 0, 3, 1)),
        ({"swizzle_nbytes": 64, "box": (8, 16)}, (0, 2, 2, 0)),
        ({"swizzle_nbytes": 32, "box": (8, 8)}, (0, 1, 2, 0)),
    ],
)
def test_modes(options, modes, opened):
    context, fake = opened
    make(context, **options)
    assert fake.tensor_map[7] == modes


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ptr": PTR + 8}, "address"),
        ({"shape": (0, 200)}, "extent of"),
        ({"shape": (100, (1 << 32) + 1)}, "extent of"),
        ({"strides": (1032,)}, "stride"),
        ({"strides": (1 << 40,)}, "stride"),
        ({"strides": (-1024,)}, "stride"),
        ({"box": (257, 32)}, "box"),
        ({"box": (0, 32)}, "box"),
        ({"box": (8, 3)}, "rows of 12 bytes"),
        ({"box": (8, 64), "swizzle_nbytes": 128}, "rows of 256 bytes in the box exceed the swizzle of 128"),
        ({"steps": (9, 1)}, "step"),
        ({"steps": (1, 2)}, "last of the steps"),
        ({"shape": (), "strides": (), "box": ()}, "1 to 5 axes"),
        ({"strides": ()}, "one fewer in strides"),
        ({"box": (8, 8, 8)}, "as many in shape"),
        ({"shape": (2,) * 6, "strides": (16,) * 5, "box": (4,) * 6}, "1 to 5 axes"),
    ],
)
def test_what_the_engine_cannot_do_is_explained_before_the_driver_is_asked(changed, words, opened):
    context, fake = opened
    with pytest.raises(ValueError, match=words):
        make(context, **changed)
    assert "cuTensorMapEncodeTiled" not in fake.names()


def test_a_device_without_tensor_maps(opened):
    context, fake = opened
    fake.results["cuTensorMapEncodeTiled"] = 801
    with pytest.raises(errors.NotSupported, match="cuTensorMapEncodeTiled"):
        make(context)
