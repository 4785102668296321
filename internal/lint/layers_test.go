// Package lint holds the project's own rules as tests: who may import whom, how long files are, that packages are documented.
package lint

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/castor-mq/castor/"

// layers maps a package to its layer by the longest prefix. A package may import packages of lower layers, of its own folder,
// and what allowed lists.
var layers = []struct {
	prefix string
	layer  int
}{
	{"cmd/", 5}, {"tests/", 5}, {"internal/admin", 4}, {"internal/bench", 4}, {"internal/chaos", 4}, {"internal/dev", 4}, {"internal/doctor", 4},
	{"proxy", 4},
	{"broker", 3}, {"controller", 3}, {"namesrv", 3},
	{"store", 2}, {"remoting", 2},
	{"remoting/code", 1}, {"remoting/header", 1}, {"remoting/body", 1}, {"message", 1}, {"conf", 1},
	{"internal/gen", 5}, {"internal/", 0},
}

func layerOf(pkg string) (layer int, folder string) {
	best := ""
	layer = -1
	for _, l := range layers {
		if (pkg == l.prefix || strings.HasPrefix(pkg, strings.TrimSuffix(l.prefix, "/")+"/")) && len(l.prefix) > len(best) {
			best, layer = l.prefix, l.layer
		}
	}
	folder, _, _ = strings.Cut(pkg, "/")
	return layer, folder
}

type pkgInfo struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkgInfo {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkgInfo
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkgInfo
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

const root = "../.."

func TestImportsGoDown(t *testing.T) {
	for _, p := range packages(t) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		from, folder := layerOf(pkg)
		if from < 0 {
			t.Errorf("%s is in no layer: add it to the table", pkg)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			other := strings.TrimPrefix(imp, module)
			to, otherFolder := layerOf(other)
			if to > from || to == from && folder != otherFolder && from > 0 && from < 5 {
				t.Errorf("%s (layer %d) imports %s (layer %d)", pkg, from, other, to)
			}
		}
	}
}

// maxLines is the longest file that is still one room.
const maxLines = 800

// eachFile calls f for every Go file that is not generated.
func eachFile(t *testing.T, f func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata" || d.Name() == "interop") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_gen.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			f(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreShort(t *testing.T) {
	eachFile(t, func(path string, text []byte) {
		if n := strings.Count(string(text), "\n"); n > maxLines {
			t.Errorf("%s has %d lines, the limit is %d", path, n, maxLines)
		}
	})
}

func TestNothingUnfinished(t *testing.T) {
	marks := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X:", "not " + "implemented yet"}
	eachFile(t, func(path string, text []byte) {
		for _, m := range marks {
			if strings.Contains(string(text), m) {
				t.Errorf("%s holds %q", path, m)
			}
		}
	})
}

func TestPackagesAndExportedNamesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	eachFile(t, func(path string, text []byte) {
		dir := filepath.Dir(path)
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		documented[dir] = documented[dir] || file.Doc != nil
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Doc == nil && f.Name.IsExported() && !isMethodOfPrivate(f) && !selfExplaining[f.Name.Name] {
				t.Errorf("%s: %s has no comment", path, f.Name.Name)
			}
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, s := range g.Specs {
					if ts := s.(*ast.TypeSpec); ts.Name.IsExported() && ts.Doc == nil && g.Doc == nil {
						t.Errorf("%s: type %s has no comment", path, ts.Name.Name)
					}
				}
			}
		}
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// selfExplaining methods implement interfaces of the standard library.
var selfExplaining = map[string]bool{"Error": true, "Unwrap": true, "Is": true}

func isMethodOfPrivate(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return false
	}
	typ := f.Recv.List[0].Type
	if s, ok := typ.(*ast.StarExpr); ok {
		typ = s.X
	}
	if ix, ok := typ.(*ast.IndexExpr); ok {
		typ = ix.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && !id.IsExported()
}
