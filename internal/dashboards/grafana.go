package main

// object is a JSON object.
type object map[string]any

// schema is the schema version of Grafana.
const schema = 41

// source is the datasource variable, because its UID differs between installations.
var source = object{"type": "prometheus", "uid": "${datasource}"}

func (d dashboard) grafana() object {
	return object{
		"uid": d.uid, "title": d.title, "description": d.description, "tags": []string{"strait"},
		"schemaVersion": schema, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
		"time":       object{"from": "now-3h", "to": "now"},
		"templating": object{"list": d.choices()},
		"links": []object{{"type": "dashboards", "tags": []string{"strait"}, "title": "Strait", "asDropdown": true,
			"includeVars": true, "keepTime": true}},
		"annotations": object{"list": []object{}},
		"panels":      d.panels(),
	}
}

func (d dashboard) choices() []object {
	choices := []object{{"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"}}
	for _, v := range d.variables {
		choice := object{
			"type": "query", "name": v.name, "label": v.label, "datasource": source, "refresh": 2, "sort": 1,
			"query":      object{"query": "label_values(" + v.metric + ", " + v.name + ")", "refId": "values"},
			"definition": "label_values(" + v.metric + ", " + v.name + ")",
		}
		if !v.one {
			choice["includeAll"], choice["multi"], choice["allValue"] = true, true, ".*"
			choice["current"] = object{"text": []string{"All"}, "value": []string{"$__all"}}
		}
		choices = append(choices, choice)
	}
	return choices
}

func (d dashboard) panels() (all []object) {
	id, y := 0, 0
	add := func(o object, x, width, height int) {
		id++
		o["id"], o["gridPos"] = id, object{"x": x, "y": y, "w": width, "h": height}
		all = append(all, o)
	}
	for _, r := range d.rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, 24, 1)
		y++
		x, tallest := 0, 0
		for _, p := range r.panels {
			if x+p.width > 24 {
				x, y, tallest = 0, y+tallest, 0
			}
			add(p.grafana(), x, p.width, p.height)
			x, tallest = x+p.width, max(tallest, p.height)
		}
		y += tallest
	}
	return all
}

func (p panel) grafana() object {
	var targets []object
	for i, q := range p.queries {
		target := object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend}
		if p.kind == table || p.kind == bars || p.kind == number {
			target["instant"], target["range"] = true, false
		}
		if p.kind == table {
			target["format"] = "table"
		}
		targets = append(targets, target)
	}
	defaults := object{"unit": p.unit, "thresholds": p.thresholds(), "color": object{"mode": p.coloring()}}
	if p.states {
		defaults["mappings"] = []object{{"type": "value", "options": object{
			"0": object{"text": "no", "color": "red"}, "1": object{"text": "yes", "color": "green"}}}}
	}
	if p.kind == lines {
		custom := object{"fillOpacity": 10, "showPoints": "never"}
		if p.stacked {
			custom["fillOpacity"], custom["stacking"] = 40, object{"mode": "normal"}
		}
		defaults["custom"], defaults["min"] = custom, 0
	}
	if p.unit == share {
		defaults["min"] = 0
		if p.kind == bars {
			defaults["max"] = 1
		}
	}
	return object{
		"type": p.kind, "title": p.title, "description": p.description, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": p.options(), "transformations": p.transformations(),
	}
}

func (p panel) thresholds() object {
	steps := []object{{"color": "green", "value": nil}}
	switch {
	case p.good != nil:
		steps = []object{{"color": "red", "value": nil}, {"color": "green", "value": *p.good}}
	case p.bad != nil:
		steps = append(steps, object{"color": "red", "value": *p.bad})
	}
	return object{"mode": "absolute", "steps": steps}
}

func (p panel) coloring() string {
	if p.kind == lines {
		return "palette-classic"
	}
	return "thresholds"
}

func (p panel) options() object {
	switch p.kind {
	case lines:
		return object{"legend": object{"displayMode": "table", "placement": "bottom", "calcs": []string{"lastNotNull", "max"}},
			"tooltip": object{"mode": "multi", "sort": "desc"}}
	case number:
		return object{"colorMode": "background", "graphMode": "none", "textMode": "auto",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}}}
	case bars:
		return object{"orientation": "horizontal", "displayMode": "basic", "reduceOptions": object{"calcs": []string{"lastNotNull"}}}
	case timeline:
		return object{"showValue": "never", "mergeValues": true, "legend": object{"showLegend": false}}
	}
	return object{"showHeader": true}
}

// transformations merge the results of several queries into one table.
func (p panel) transformations() []object {
	if p.kind != table {
		return []object{}
	}
	names := object{}
	for i, q := range p.queries {
		value := "Value #" + string(rune('A'+i))
		if len(p.queries) == 1 {
			value = "Value"
		}
		names[value] = q.legend
	}
	return []object{{"id": "merge", "options": object{}},
		{"id": "organize", "options": object{"excludeByName": object{"Time": true}, "renameByName": names}}}
}
