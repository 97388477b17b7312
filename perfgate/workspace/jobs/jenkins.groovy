<SAYS>
pipeline {
  agent { label 'gpu' }
  stages {
    stage('perf-gate') {
      steps {
        lock('gpu') {
          timeout(time: 1, unit: 'HOURS') {
            sh '''
<SCRIPT>
            '''
          }
        }
      }
    }
  }
  post {
    always {
      junit testResults: 'perfgate.xml', allowEmptyResults: false
      archiveArtifacts artifacts: 'perfgate.json', allowEmptyArchive: true
    }
  }
}
