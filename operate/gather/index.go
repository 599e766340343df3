package gather

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"
)

//go:embed index.html
var page string

// indexPage renders a summary as HTML. All values are escaped, and no external resources
// are loaded.
var indexPage = template.Must(template.New("index").Funcs(template.FuncMap{
	"group": func(files []string) []group {
		var all []group
		for _, f := range files {
			name, _, nested := strings.Cut(f, "/")
			if !nested {
				name = ""
			}
			if len(all) == 0 || all[len(all)-1].Name != name {
				all = append(all, group{Name: name})
			}
			last := &all[len(all)-1]
			last.Files = append(last.Files, f)
		}
		return all
	},
}).Parse(page))

// group is the files of one directory.
type group struct {
	Name  string
	Files []string
}

func index(s *Summary) ([]byte, error) {
	var b bytes.Buffer
	err := indexPage.Execute(&b, s)
	return b.Bytes(), err
}
