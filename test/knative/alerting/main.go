// Command alerting is what Prometheus makes of scrapes: it stores them, evaluates alerting rules every 30 s as Prometheus
// itself does, and says which alerts have fired since, and which are active at the end. It also answers queries at the end, and
// says by which labels expressions group. Standard input and output are JSON.
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
	// Queries are answered at the time of the last scrape.
	Queries []string `json:"queries"`
}

type output struct {
	Alerts []active `json:"alerts"`
	// Fired has the alerts that have fired, those that are over by now as well.
	Fired []fired `json:"fired"`
	// Groupings has the labels of each expression's aggregations and matchings, in their order.
	Groupings [][]grouping `json:"groupings"`
	// Answers has the labels of the series that each query gives.
	Answers [][]map[string]string `json:"answers"`
}

type fired struct {
	Name   string            `json:"name"`
	AtMs   int64             `json:"atMs"`
	Labels map[string]string `json:"labels"`
}

type grouping struct {
	// What has the labels: `sum`, for example, or `on`.
	What   string   `json:"what"`
	Labels []string `json:"labels"`
	// Without is true where all labels but these count.
	Without bool `json:"without"`
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
	out := output{Groupings: [][]grouping{}, Answers: [][]map[string]string{}}
	for _, text := range in.Expressions {
		expression, err := expressions.ParseExpr(text)
		check(err)
		out.Groupings = append(out.Groupings, groupingsOf(expression))
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
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: expressions})
	out.Alerts, out.Fired = evaluate(engine, db, expressions, groups, in.Scrapes)
	for _, query := range in.Queries {
		out.Answers = append(out.Answers, answer(engine, db, query, in.Scrapes))
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
}

func groupingsOf(expression parser.Expr) []grouping {
	found := []grouping{}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		switch one := node.(type) {
		case *parser.AggregateExpr:
			found = append(found, grouping{one.Op.String(), append([]string{}, one.Grouping...), one.Without})
		case *parser.BinaryExpr:
			if matching := one.VectorMatching; matching != nil && (matching.On || len(matching.MatchingLabels) > 0) {
				found = append(found, grouping{"on", append([]string{}, matching.MatchingLabels...), !matching.On})
			}
		}
		return nil
	})
	return found
}

func answer(engine *promql.Engine, db *tsdb.DB, text string, scrapes []scrape) []map[string]string {
	at := time.UnixMilli(scrapes[len(scrapes)-1].AtMs)
	query, err := engine.NewInstantQuery(context.Background(), db, nil, text, at)
	check(err)
	defer query.Close()
	series, err := query.Exec(context.Background()).Vector()
	check(err)
	found := []map[string]string{}
	for _, one := range series {
		found = append(found, one.Metric.Map())
	}
	return found
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

func evaluate(engine *promql.Engine, db *tsdb.DB, expressions parser.Parser, groups *rulefmt.RuleGroups, scrapes []scrape) ([]active, []fired) {
	found, history := []active{}, []fired{}
	if len(scrapes) == 0 {
		return found, history
	}
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
				for _, alert := range alerting.ActiveAlerts() {
					if alert.FiredAt.Equal(at) {
						history = append(history, fired{rule.Alert, at.UnixMilli(), alert.Labels.Map()})
					}
				}
			}
			for _, alert := range alerting.ActiveAlerts() {
				found = append(found, active{rule.Alert, alert.State.String(), alert.Labels.Map(), alert.Annotations.Map()})
			}
		}
	}
	return found, history
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
