package main

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/watchlist"
)

// checkMembers refuses a filter that asks for a member that no event of the public topics has: one that is misspelt would be absent from each of
// them, and the filter would keep nothing, or all, without a word.
func checkMembers(filter ast.Node) error {
	v := &memberVisitor{variables: make(map[string]bool)}
	ast.Walk(&filter, v)
	for _, n := range v.asked {
		path, ok := pathOf(n)
		if ok && path[0] == "$env" { // the document itself
			path = path[1:]
		}
		if !ok || len(path) == 0 || v.variables[path[0]] {
			continue
		}
		at := []reflect.Type{reflect.TypeFor[event.Variant](), reflect.TypeFor[event.Reference](), reflect.TypeFor[watchlist.Alert](), reflect.TypeFor[methylation.Stretch]()}
		for i, name := range path {
			var next []reflect.Type
			open := false
			for _, t := range at {
				members, any := memberOf(t, name)
				next, open = append(next, members...), open || any
			}
			if open {
				break
			}
			if len(next) == 0 {
				return cli.Usagef("--filter: no event has a member %s; docs/consume has those of variants, alerts and methylation", strings.Join(path[:i+1], "."))
			}
			at = next
		}
	}
	return nil
}

// memberVisitor collects what a filter asks for: call, and call.qual.
type memberVisitor struct {
	asked     []ast.Node
	variables map[string]bool // that the filter declares
}

func (v *memberVisitor) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.VariableDeclaratorNode:
		v.variables[n.Name] = true
	case *ast.IdentifierNode, *ast.MemberNode:
		v.asked = append(v.asked, n)
	}
}

// pathOf are the names of a chain that begins with a member of the document; not those of a chain with an index in it, or of an element.
func pathOf(n ast.Node) ([]string, bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return []string{n.Value}, true
	case *ast.ChainNode:
		return pathOf(n.Node)
	case *ast.MemberNode:
		name, named := n.Property.(*ast.StringNode)
		before, ok := pathOf(n.Node)
		return append(before, nameOf(name)), ok && named
	}
	return nil, false
}

func nameOf(n *ast.StringNode) string {
	if n == nil {
		return ""
	}
	return n.Value
}

// memberOf are the types of a member of documents that a type is written as; open is a type whose members are known only to itself.
func memberOf(t reflect.Type, name string) (types []reflect.Type, open bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isOpen(t) {
		return nil, true
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			inner, open := memberOf(f.Type, name)
			if open {
				return nil, true
			}
			types = append(types, inner...)
		case tag == name || tag == "" && f.Name == name:
			types = append(types, f.Type)
		}
	}
	return types, false
}

func isOpen(t reflect.Type) bool {
	marshaler := reflect.TypeFor[json.Marshaler]()
	return t.Kind() == reflect.Map || t.Kind() == reflect.Interface || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}
