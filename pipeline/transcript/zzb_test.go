package transcript
import ("testing";"os";"compress/gzip";"encoding/json";"io")
func corpusBody(b *testing.B) []byte {
 f,_:=os.Open("/work/shared/corpus/cc-cli-ff58f5c517e5-s1.json.gz"); z,_:=gzip.NewReader(f); raw,_:=io.ReadAll(z)
 var d map[string]json.RawMessage; json.Unmarshal(raw,&d)
 var ms []map[string]json.RawMessage; json.Unmarshal(d["messages"],&ms)
 out:=[]map[string]json.RawMessage{}; for _,m:=range ms{ out=append(out,map[string]json.RawMessage{"role":m["role"],"content":m["content"]}) }
 body,_:=json.Marshal(map[string]any{"model":"x","messages":out}); return body }
func BenchmarkFacts(b *testing.B){
 body:=corpusBody(b); b.ReportAllocs(); b.Run("facts",func(b *testing.B){ n:=0
 for b.Loop(){ ix,err:=Parse(body,Anthropic); if err!=nil{b.Fatal(err)}
  for i:=range ix.Results{ r:=&ix.Results[i]; for range 3 { if ix.ResultOutcome(r)==Succeeded{n++} }; if r.Call>=0{ ix.CallFacts(r.Call) } }; ix.Release() }
 _=n; b.ReportMetric(float64(len(body)),"bytes") })
 b.Run("parse",func(b *testing.B){ for b.Loop(){ ix,_:=Parse(body,Anthropic); ix.Release() } }) }
