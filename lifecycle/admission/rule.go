// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

// verdict says what happens to a field that is set.
type verdict int

const (
	// refused rejects the pod. It is the zero value so that a rule that forgets to decide is safe.
	refused verdict = iota
	// supported fields do what the Kubernetes documentation says, with everything below them.
	supported
	// elsewhere marks fields that ask nothing of a node: the scheduler or the API server acts on them.
	elsewhere
	// limited fields may have one of the rule's values only, those that ask for what happens anyway.
	limited
	// inside means that the fields below have rules of their own.
	inside
)

// rule decides over one field.
type rule struct {
	// path is the field's path with "[]" for any element of a list, "[hugepages-*]" for huge pages of any size and "[*]" for any
	// key of a map that has no rule of its own.
	path    string
	verdict verdict
	values  []string
	// note completes "<field>: " for a refused or limited field and tells what to do instead. For others it is a remark
	// for the documentation.
	note string
}

// ruleIndex finds rules by path.
var ruleIndex = index(allRules())

func index(rules []rule) map[string]rule {
	out := make(map[string]rule, len(rules))
	for _, r := range rules {
		out[r.path] = r
	}
	return out
}

// allRules are the rules with full paths, in the order of documentation.
func allRules() []rule {
	var out []rule
	out = append(out, podRules...)
	out = append(out, prefixed("spec.securityContext.", podSecurityRules)...)
	out = append(out, prefixed("spec.volumes[].", volumeRules)...)
	for _, list := range []string{"spec.containers[].", "spec.initContainers[].", "spec.ephemeralContainers[]."} {
		out = append(out, prefixed(list, containerRules)...)
		out = append(out, prefixed(list+"securityContext.", containerSecurityRules)...)
	}
	return out
}

func prefixed(prefix string, rules []rule) []rule {
	out := make([]rule, len(rules))
	for i, r := range rules {
		r.path = prefix + r.path
		out[i] = r
	}
	return out
}
