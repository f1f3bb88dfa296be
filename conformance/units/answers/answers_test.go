package answers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The tests start this test binary as the program.
func TestMain(m *testing.M) {
	switch behaviour := os.Getenv("ANSWERS_TEST_PROGRAM"); behaviour {
	case "":
		os.Exit(m.Run())
	case "end":
	default:
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(strings.ReplaceAll(behaviour, "QUESTION", lines.Text()))
		}
	}
}

func TestAsk(t *testing.T) {
	table := []struct{ name, behaviour, answer, problem string }{
		{"an answer", `{"answer":QUESTION}`, `{"list":[1]}`, ""},
		{"a mistake", `{"mistake":"no such thing"}`, "", `no such thing; the question was {"list":[1]}`},
		{"no JSON", `oops`, "", "the reply was oops"},
		{"a program that ends", "end", "", "the program has ended"},
	}
	for _, test := range table {
		t.Setenv("ANSWERS_TEST_PROGRAM", test.behaviour)
		p := &program{path: os.Args[0]}
		answer, err := p.ask("list", []int{1})
		if string(answer) != test.answer || (test.problem == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), test.problem)) {
			t.Errorf("%s: got %s, %v", test.name, answer, err)
		}
		if err := p.in.Close(); err != nil {
			t.Error(err)
		}
		// A program that was made to end may have ended in any way.
		_ = p.cmd.Wait()
	}
	if _, err := (&program{}).ask("list", nil); err == nil || !strings.Contains(err.Error(), ProgramVariable) {
		t.Errorf("without a program: got %v", err)
	}
	if _, err := (&program{path: "/nowhere/at/all"}).ask("list", nil); err == nil {
		t.Error("a program that can't be started must be an error")
	}
}

func TestSpoil(t *testing.T) {
	const answer = `{"equals":true,"is":[true,false,null],"n":1,"q":{"cpu":"100m","pods":"-2"}}`
	const want = `{"equals":true,"is":[false,true,null],"n":2,"q":{"cpu":"7100m","pods":"72"}}`
	got, err := spoil(json.RawMessage(answer))
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}
