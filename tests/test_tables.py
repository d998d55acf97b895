"""Tables on disk: what is read, and the error message of each fault."""

import gzip
import pathlib

import numpy as np
import pandas as pd
import pytest

from pann.cli import csv
from pann.runtime.atomic import check_writable

CURE = "mend {column}"


def written(folder: pathlib.Path, text: str | bytes, name: str = "data.csv") -> pathlib.Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "name, content",
    {
        "comma": ("data.csv", b"a,b\n1,2.5\n3,-4e3\n"),
        "semicolon": ("data.csv", b"a;b\n1;2.5\n3;-4e3\n"),
        "decimal commas": ("data.csv", b"a;b\n1;2,5\n3;-4e3\n"),
        "quoted decimal commas": ("data.csv", b'a;b\r\n"1,0";"2,5"\r\n3;-4,000e3\r\n'),
        "tab by suffix": ("data.tsv", b"a\tb\n1\t2.5\n3\t-4e3\n"),
        "spaces after commas": ("data.csv", b"a, b\n1, 2.5\n3, -4e3\n"),
        "byte order mark": ("data.csv", b"\xef\xbb\xbfa,b\n1,2.5\n3,-4e3\n"),
        "windows lines": ("data.csv", b"a,b\r\n1,2.5\r\n3,-4e3\r\n"),
        "blank lines": ("data.csv", b"a,b\n\n1,2.5\n\n3,-4e3\n\n"),
        "quotes": ("data.csv", b'"a","b"\n"1","2.5"\n"3","-4e3"\n'),
        "no last newline": ("data.TXT", b"a,b\n1,2.5\n3,-4e3"),
        "GZIP": ("DATA.CSV.GZ", gzip.compress(b"a,b\n1,2.5\n3,-4e3\n")),
        "gzip": ("data.csv.gz", gzip.compress(b"a,b\n1,2.5\n3,-4e3\n")),
    }.values(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_table_in_many_dresses(name: str, content: bytes, tmp_path: pathlib.Path) -> None:
    table = csv.read_table(written(tmp_path, content, name))
    assert table.columns == ["a", "b"]
    frame = csv.numbers(table, ["b", "a"], cure=CURE)
    np.testing.assert_array_equal(frame.to_numpy(), [[2.5, 1], [-4000, 3]])
    assert frame.to_numpy().dtype == float


def test_numbers_come_back_to_the_last_bit(tmp_path: pathlib.Path) -> None:
    values = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-20, 20).repeat(25)
    csv.write_csv(tmp_path / "data.csv", pd.DataFrame({"x": values}))
    frame = csv.numbers(csv.read_table(tmp_path / "data.csv"), ["x"], cure=CURE)
    # pandas before 3 reads to within an ulp.
    np.testing.assert_allclose(frame["x"], values, rtol=3e-16)


def test_booleans_are_zeros_and_ones(tmp_path: pathlib.Path) -> None:
    table = csv.read_table(written(tmp_path, "a,b\nTrue,1\nFalse,2\n"))
    assert csv.numbers(table, ["a"], cure=CURE)["a"].tolist() == [1.0, 0.0]


def test_a_saved_index_is_left_out_with_a_warning(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.csv"
    pd.DataFrame({"a": [1.0, 2.0]}).to_csv(path)
    with pytest.warns(UserWarning, match="taken for row numbers"):
        assert csv.read_table(path).columns == ["a"]


FILES = {
    "empty": ("", "is empty"),
    "only blank lines": ("\n\n", "is empty"),
    "header only": ("a,b\n", "column names but no rows"),
    "long line": ("a,b\n1,2\n3,4,5\n", "data.csv.*Expected 2 fields in line 3, saw 3"),
    "all lines long": ("a,b\n1,2,3\n3,4,5\n", "more fields than the 2 that its first line names"),
    "open quote": ('a,b\n1,"2\n3,4\n', "starting at row 1; correct .* its quotes"),
    "duplicate names": ("a,b,a\n1,2,3\n", "two columns named 'a'"),
    "no name": ("a,,b\n1,2,3\n", "column 2 of .* has no name"),
    "no header": ("1,2\n3,4\n", "numbers where the names of the columns should be"),
    "binary": (b"PK\x03\x04\0\0\0\x7f", "contains zero bytes, so it is not text in UTF-8"),
    "binary bytes": (b"PK\x03\x04\0\0\0\xff", "not text in UTF-8"),
    "junk": (b"\x93\xfa\xfe\x80\n\x81\xff", "not text in UTF-8: it contains the byte 0x93"),
    "latin-1": ("a,b\n1,caf\xe9\n".encode("latin-1"), "the byte 0xe9"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "not text in UTF-8"),
}


@pytest.mark.parametrize("content, message", FILES.values(), ids=FILES)
def test_a_file_that_is_no_table_is_refused(
    content: str | bytes, message: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ValueError, match=message):
        csv.read_table(written(tmp_path, content))


@pytest.mark.parametrize("cut", [5, 30])
def test_a_gzip_file_that_is_cut_short_is_refused(cut: int, tmp_path: pathlib.Path) -> None:
    packed = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    with pytest.raises(ValueError, match="not a complete gzip file"):
        csv.read_table(written(tmp_path, packed[:cut], "data.csv.gz"))


def test_text_that_calls_itself_gzip_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="not a complete gzip file"):
        csv.read_table(written(tmp_path, "a,b\n1,2\n", "data.csv.gz"))


def test_paths_that_are_no_tables(tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        csv.read_table(tmp_path / "folder.csv")
    with pytest.raises(ValueError, match="there is no file"):
        csv.read_table(tmp_path / "none.csv")
    (tmp_path / "null.csv").symlink_to("/dev/null")
    with pytest.raises(ValueError, match="not a regular file"):
        csv.read_table(tmp_path / "null.csv")
    with pytest.raises(ValueError, match="which are the tables that pann reads"):
        csv.read_table(tmp_path / "data.xlsx")


CELLS = {
    "text": (
        "a,b\n1,2\n3,red\n",
        r"'b' has 'red' in line 3 of .*data.csv', .* not a number; encode .* mend b",
    ),
    "date": ("a,b\n1,2020-01-31\n", "'2020-01-31' in line 2"),
    "text among booleans": ("a,b\n1,True\n2,maybe\n", "'True' in line 2"),
    "long text": (f"a,b\n1,{'x' * 99}\n", r"x{37}\.\.\.' in line 2"),
    "missing": ("a,b\n1,2\n3,\n5,\n", "'b' has no value in line 3 .* and in 1 more rows"),
    "NaN": ("a,b\n1,NaN\n", "'b' has no value in line 2"),
    "infinite": ("a,b\n1,2\n3,-inf\n", "'b' has an infinite value in line 3"),
    "too large": ("a,b\n1,1e999\n", "'b' has an infinite value in line 2"),
    "short line": ("a,b\n1,2\n3\n", "'b' has no value in line 3"),
    "three digits after a comma": ("a;b\n1;1,234\n", "'1,234' in line 2 .* not a number"),
    "comma and point": ("a;b\n1;1,5\n2.5;2\n", "'1,5' in line 2"),
    "blank lines count": ("a,b\n1,2\n\n\n3,red\n", "in line 5"),
    "quoted line breaks count": ('a,b,c\n1,2,"x\ny\nz"\n3,red,4\n', "in line 5"),
}


@pytest.mark.parametrize("content, message", CELLS.values(), ids=CELLS)
def test_a_cell_that_is_no_number_is_named_by_column_and_line(
    content: str, message: str, tmp_path: pathlib.Path
) -> None:
    table = csv.read_table(written(tmp_path, content))
    with pytest.raises(ValueError, match=message):
        csv.numbers(table, ["b"], cure=CURE)


def test_the_cure_can_be_pasted_into_a_shell(tmp_path: pathlib.Path) -> None:
    table = csv.read_table(written(tmp_path, "my col\nx\n"))
    with pytest.raises(ValueError, match=r"mend 'my col'$"):
        csv.numbers(table, ["my col"], cure=CURE)


def test_dates_and_lists_of_other_readers_are_no_numbers() -> None:
    frame = pd.DataFrame({"when": pd.to_datetime(["2020-01-01"]), "list": [[1, 2]]})
    table = csv.Table(pathlib.Path("data.parquet"), frame)
    for name in frame:
        with pytest.raises(ValueError, match=f"'{name}' has .* in row 1 of 'data.parquet'"):
            csv.numbers(table, [name], cure=CURE)


def test_parquet_asks_for_pyarrow(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install pyarrow"):
        csv.read_table(written(tmp_path, b"PAR1", "data.parquet"))


def test_parquet_is_read_where_pyarrow_is(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "data.parquet"
    pd.DataFrame({"a": [1, 2], "b": [True, False]}).to_parquet(path)
    frame = csv.numbers(csv.read_table(path), ["a", "b"], cure=CURE)
    np.testing.assert_array_equal(frame.to_numpy(), [[1, 1], [2, 0]])
    with pytest.raises(ValueError, match="not a usable Parquet file"):
        csv.read_table(written(tmp_path, b"junk", "junk.parquet"))


def test_names_are_split_at_commas_unless_a_column_has_one(tmp_path: pathlib.Path) -> None:
    table = csv.read_table(written(tmp_path, 'a,b,"c,d"\n1,2,3\n'))
    assert csv.split_names(["a, b", "c,d", "a"], table) == ["a", "b", "c,d"]


@pytest.mark.parametrize(
    "name, hint", [("medinc", "did you mean 'MedInc'"), ("Popluation", "did you mean 'Population'")]
)
def test_close_names_are_suggested(name: str, hint: str, tmp_path: pathlib.Path) -> None:
    table = csv.read_table(written(tmp_path, "MedInc,Population\n1,2\n"))
    with pytest.raises(ValueError, match=f"no column '{name}' .*{hint}.* its columns are 'MedInc'"):
        csv.check_columns(table, ["MedInc", name])


def test_a_long_list_of_columns_is_cut() -> None:
    table = csv.Table(pathlib.Path("wide.csv"), pd.DataFrame(np.ones((1, 50))).add_prefix("c"))
    with pytest.raises(ValueError, match=r"'c19' and 30 more$"):
        csv.check_columns(table, ["zzz"])


@pytest.mark.parametrize(
    "name, stem", [("a.csv", "a"), ("a.b.csv.gz", "a.b"), ("A.CSV.GZ", "A"), ("x.tsv", "x")]
)
def test_the_stem_has_no_endings(name: str, stem: str) -> None:
    assert csv.stem(pathlib.Path("folder") / name) == stem


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "old")
    frame = pd.DataFrame({"x": [1.0]})

    def fail(self: pd.DataFrame, file: str, **_: object) -> None:
        pathlib.Path(file).write_text("half", encoding="utf-8")
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(KeyboardInterrupt):
        csv.write_csv(path, frame)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_compressed_name_gives_a_compressed_file(tmp_path: pathlib.Path) -> None:
    csv.write_csv(tmp_path / "out.csv.gz", pd.DataFrame({"x": [1.5]}))
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == b"x\n1.5\n"


def test_whether_one_can_write_is_known_before(tmp_path: pathlib.Path) -> None:
    check_writable(tmp_path / "new.csv")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        check_writable(tmp_path / "none" / "new.csv")
    with pytest.raises(ValueError, match="cannot write to the folder '/proc'"):
        check_writable(pathlib.Path("/proc/new.csv"))
