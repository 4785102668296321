package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// aliasDirective on a struct lets its strings point into the frame.
const aliasDirective = "//header:alias"

// headerDecl is one header with the fields of its embedded structs in place.
type headerDecl struct {
	name   string
	alias  bool
	fields []fieldDecl
}

// fieldDecl is one field. typ is string, bool, int32 or int64, with a trailing ? for Opt; keys[0] is written, all are read.
type fieldDecl struct {
	name     string
	typ      string
	keys     []string
	required bool
}

// structDecl is a struct as found in the source.
type structDecl struct {
	name  string
	alias bool
	typ   *ast.StructType
}

type declarations struct {
	fset   *token.FileSet
	order  []string
	byName map[string]structDecl
}

// parseDir returns the headers of a package in the order of their declaration (files by name).
func parseDir(dir string) ([]headerDecl, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	d := declarations{fset: token.NewFileSet(), byName: map[string]structDecl{}}
	for _, name := range names {
		if base := filepath.Base(name); base == outName || strings.HasSuffix(base, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := d.add(name, src); err != nil {
			return nil, err
		}
	}
	return d.headers()
}

// add collects the structs of one file.
func (d *declarations) add(name string, src []byte) error {
	file, err := parser.ParseFile(d.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, spec := range gen.Specs {
			ts := spec.(*ast.TypeSpec)
			st, ok := ts.Type.(*ast.StructType)
			if !ok || ts.TypeParams != nil {
				continue
			}
			doc := ts.Doc
			if doc == nil {
				doc = gen.Doc
			}
			d.order = append(d.order, ts.Name.Name)
			d.byName[ts.Name.Name] = structDecl{ts.Name.Name, hasDirective(doc), st}
		}
	}
	return nil
}

func hasDirective(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for _, c := range doc.List {
		if c.Text == aliasDirective {
			return true
		}
	}
	return false
}

// headers resolves the collected structs that are headers.
func (d *declarations) headers() ([]headerDecl, error) {
	var hs []headerDecl
	for _, name := range d.order {
		s := d.byName[name]
		if !d.isHeader(s) {
			continue
		}
		fields, err := d.flatten(s)
		if err != nil {
			return nil, err
		}
		if err := checkUnique(name, fields); err != nil {
			return nil, err
		}
		hs = append(hs, headerDecl{name, s.alias, fields})
	}
	return hs, nil
}

// isHeader tells headers from other structs: a header has an h tag or embeds a header.
func (d *declarations) isHeader(s structDecl) bool {
	for _, f := range s.typ.Fields.List {
		if f.Tag != nil && strings.Contains(f.Tag.Value, `h:"`) {
			return true
		}
		if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 {
			if e, ok := d.byName[id.Name]; ok && d.isHeader(e) {
				return true
			}
		}
	}
	return false
}

func (d *declarations) flatten(s structDecl) ([]fieldDecl, error) {
	var out []fieldDecl
	for _, f := range s.typ.Fields.List {
		fields, err := d.field(f)
		if err != nil {
			return nil, fmt.Errorf("%s: struct %s: %w", d.fset.Position(f.Pos()), s.name, err)
		}
		out = append(out, fields...)
	}
	return out, nil
}

func (d *declarations) field(f *ast.Field) ([]fieldDecl, error) {
	if len(f.Names) == 0 {
		id, ok := f.Type.(*ast.Ident)
		if !ok || d.byName[id.Name].typ == nil {
			return nil, errors.New("an embedded field must be a struct of this package")
		}
		return d.flatten(d.byName[id.Name])
	}
	if len(f.Names) > 1 {
		return nil, errors.New("one name per field, please")
	}
	typ, err := fieldType(f.Type)
	if err != nil {
		return nil, err
	}
	if f.Tag == nil {
		return nil, fmt.Errorf("field %s has no tag", f.Names[0].Name)
	}
	fd := fieldDecl{name: f.Names[0].Name, typ: typ}
	return []fieldDecl{fd}, fd.parseTag(f.Tag.Value)
}

func fieldType(e ast.Expr) (string, error) {
	switch t := e.(type) {
	case *ast.Ident:
		switch t.Name {
		case "string", "bool", "int32", "int64":
			return t.Name, nil
		}
	case *ast.IndexExpr:
		if id, ok := t.X.(*ast.Ident); ok && id.Name == "Opt" {
			inner, err := fieldType(t.Index)
			if err != nil {
				return "", err
			}
			// On the wire an empty string and none are the same, so Opt[string] would have a state that does not travel.
			if inner != "string" && !strings.HasSuffix(inner, "?") {
				return inner + "?", nil
			}
		}
	}
	return "", errors.New("a field is a string, bool, int32 or int64, or an Opt of the last three")
}

// keyForm keeps keys free of characters that would need escaping in JSON.
var keyForm = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

func (fd *fieldDecl) parseTag(lit string) error {
	raw, err := strconv.Unquote(lit)
	if err != nil {
		return err
	}
	parts := strings.Split(reflect.StructTag(raw).Get("h"), ",")
	fd.keys = []string{parts[0]}
	for _, p := range parts[1:] {
		alias, isAlias := strings.CutPrefix(p, "alias=")
		switch {
		case isAlias:
			fd.keys = append(fd.keys, alias)
		case p == "required":
			fd.required = true
		default:
			return fmt.Errorf("field %s: unknown tag option %q", fd.name, p)
		}
	}
	for _, k := range fd.keys {
		if !keyForm.MatchString(k) {
			return fmt.Errorf("field %s: bad key %q", fd.name, k)
		}
	}
	return nil
}

func checkUnique(name string, fields []fieldDecl) error {
	keys, names := map[string]bool{}, map[string]bool{}
	for _, f := range fields {
		if names[f.name] {
			return fmt.Errorf("struct %s: field %s declared twice", name, f.name)
		}
		names[f.name] = true
		for _, k := range f.keys {
			if keys[k] {
				return fmt.Errorf("struct %s: key %q used twice", name, k)
			}
			keys[k] = true
		}
	}
	return nil
}
