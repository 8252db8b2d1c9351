// Command alerting is what Prometheus makes of scrapes: it stores them, evaluates alerting rules every 30 s as Prometheus
// itself does, and says which alerts are active at the end. Standard input and output are JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"math"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

type scrape struct {
	AtMs int64 `json:"atMs"`
	// Labels of the target; a series keeps those of these that it has itself (honor_labels).
	Labels map[string]string `json:"labels"`
	Text   string            `json:"text"`
}

type input struct {
	// Rules is a file of rules, in YAML or JSON.
	Rules json.RawMessage `json:"rules"`
	// Scrapes in the order of their times.
	Scrapes []scrape `json:"scrapes"`
	// Expressions are parsed, and nothing else.
	Expressions []string `json:"expressions"`
}

type active struct {
	Name        string            `json:"name"`
	State       string            `json:"state"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

const interval = 30 * time.Second

func main() {
	log.SetFlags(0)
	var in input
	check(json.NewDecoder(os.Stdin).Decode(&in))
	expressions := parser.NewParser(parser.Options{})
	for _, expression := range in.Expressions {
		_, err := expressions.ParseExpr(expression)
		check(err)
	}
	groups, errs := rulefmt.Parse(in.Rules, false, model.UTF8Validation, expressions, slog.New(slog.DiscardHandler))
	check(errors.Join(errs...))
	folder, err := os.MkdirTemp("", "sluice-alerting-")
	check(err)
	defer os.RemoveAll(folder)
	db, err := tsdb.Open(folder, nil, nil, tsdb.DefaultOptions(), nil)
	check(err)
	defer db.Close()
	store(db, in.Scrapes)
	check(json.NewEncoder(os.Stdout).Encode(evaluate(db, expressions, groups, in.Scrapes)))
}

// store appends what every scrape says, and that series are stale which its target no longer has.
func store(db *tsdb.DB, scrapes []scrape) {
	known := map[string]map[uint64]labels.Labels{}
	for _, one := range scrapes {
		target := labels.FromMap(one.Labels).String()
		appender := db.Appender(context.Background())
		found := map[uint64]labels.Labels{}
		parse(one, func(series labels.Labels, sample float64) {
			found[series.Hash()] = series
			_, err := appender.Append(0, series, one.AtMs, sample)
			check(err)
		})
		for hash, series := range known[target] {
			if _, ok := found[hash]; !ok {
				_, err := appender.Append(0, series, one.AtMs, math.Float64frombits(value.StaleNaN))
				check(err)
			}
		}
		known[target] = found
		check(appender.Commit())
	}
}

func parse(one scrape, sampled func(labels.Labels, float64)) {
	samples, err := textparse.New([]byte(one.Text), "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	check(err)
	for {
		entry, err := samples.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		check(err)
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		samples.Labels(&series)
		whole := labels.NewBuilder(series)
		for name, text := range one.Labels {
			if series.Get(name) == "" {
				whole.Set(name, text)
			}
		}
		_, _, sample := samples.Series()
		sampled(whole.Labels(), sample)
	}
}

func evaluate(db *tsdb.DB, expressions parser.Parser, groups *rulefmt.RuleGroups, scrapes []scrape) []active {
	found := []active{}
	if len(scrapes) == 0 {
		return found
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: expressions})
	query := rules.EngineQueryFunc(engine, db)
	from, until := time.UnixMilli(scrapes[0].AtMs), time.UnixMilli(scrapes[len(scrapes)-1].AtMs)
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			expression, err := expressions.ParseExpr(rule.Expr)
			check(err)
			alerting := rules.NewAlertingRule(rule.Alert, expression, time.Duration(rule.For), 0,
				labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", true, slog.Default())
			for at := from; !at.After(until); at = at.Add(interval) {
				_, err := alerting.Eval(context.Background(), 0, at, query, &url.URL{}, 0)
				check(err)
			}
			for _, alert := range alerting.ActiveAlerts() {
				found = append(found, active{rule.Alert, alert.State.String(), alert.Labels.Map(), alert.Annotations.Map()})
			}
		}
	}
	return found
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
