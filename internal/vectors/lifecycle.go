package vectors

import "path/filepath"

// Case is what every case of testdata/lifecycle has. Where tidemark does something else than was observed in the original,
// Reason says why; it is empty where both agree.
type Case struct {
	Name     string
	Shows    string
	Observed string
	Reason   string
}

func caseOf(f *File) Case {
	return Case{Name: f.Name, Shows: f.Header["shows"], Observed: f.Header["observed"], Reason: f.Header["reason"]}
}

// LifecycleDir is the directory of one component's cases.
func LifecycleDir(component string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "testdata", "lifecycle", component), nil
}

// lifecycle reads a component's cases; one turns a file into a case.
func lifecycle[T any](component string, form Form, one func(*File) (T, error)) ([]T, error) {
	dir, err := LifecycleDir(component)
	if err != nil {
		return nil, err
	}
	form.Headers = append([]string{"shows", "observed", "reason"}, form.Headers...)
	files, err := ReadDir(dir, form)
	if err != nil {
		return nil, err
	}
	cases := make([]T, len(files))
	for i, f := range files {
		if cases[i], err = one(f); err != nil {
			return nil, err
		}
	}
	return cases, nil
}
